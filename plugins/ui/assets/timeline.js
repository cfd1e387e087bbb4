// What happened: transactions and events, the newest first; the map at one of them, and what
// differs between two.

import { call } from './api.js';
import { h, byId, clock, stateChip } from './dom.js';

const limit = 200;

export class Timeline {
  // go shows a mode of the map: {at}, {since}, or {since, at}.
  constructor(go, trouble) {
    this.go = go;
    this.trouble = trouble;
    this.list = byId('moments');
    this.differences = byId('differences');
    byId('hour').addEventListener('click', () => this.hour());
  }

  async load() {
    const [history, events] = await Promise.all([
      call('History', { limit }), call('Events', { limit }).catch(() => ({})), // an agent without containers has none
    ]);
    const moments = (history.records || []).map((r) => this.transaction(r)).concat((events.events || []).map((e) => this.event(e)));
    moments.sort((a, b) => b.time - a.time);
    this.list.replaceChildren(...moments.slice(0, limit).map((m) => m.row));
    this.list.dataset.loaded = String(Number(this.list.dataset.loaded || 0) + 1);
  }

  transaction(r) {
    const done = {};
    for (const d of r.done || []) {
      const what = d.error ? `${d.op} failed` : d.op;
      done[what] = (done[what] || 0) + 1;
    }
    const did = Object.entries(done).map(([what, n]) => `${n} ${what}`).join(', ');
    const at = r.settled || r.time;
    const keys = (r.asked || []).slice(0, 3).join(' ') + ((r.asked || []).length > 3 ? ' …' : '');
    return {
      time: new Date(at).getTime(),
      row: h('li', { 'data-seq': r.seq },
        h('button', { onclick: () => this.go({ at, title: `after transaction ${r.seq}` }) }, 'Show'),
        h('button', { onclick: () => this.compare({ since: at }) }, 'Since then'),
        h('span', { class: 'when' }, clock(at)), ` #${r.seq} `, h('strong', {}, r.source || 'agent'), ` ${r.note || ''} `,
        h('span', { class: 'soft' }, keys), did ? ` — ${did}` : ''),
    };
  }

  event(e) {
    const what = [e.type, e.name, e.reason].filter(Boolean).join(' ');
    return {
      time: new Date(e.time).getTime(),
      row: h('li', { 'data-event': e.seq },
        h('button', { onclick: () => this.go({ at: e.time, title: `at the event ${what}` }) }, 'Show'),
        h('span', { class: 'when' }, clock(e.time)), ' ', h('strong', {}, e.runtime || 'agent'), ` ${what}`),
    };
  }

  hour() {
    return this.compare({ since: new Date(Date.now() - 3600 * 1000).toISOString() });
  }

  // compare shows what differs from a time, on the map and as a list. If the history begins
  // later, from then on.
  async compare(mode) {
    let changes;
    try {
      ({ changes } = await call('Changes', { from: mode.since }));
    } catch (err) {
      const earliest = err.code === 'out_of_range' && /begins at (\S+?);/.exec(err.message);
      if (!earliest) {
        this.trouble(err);
        return;
      }
      mode = { since: earliest[1] };
      ({ changes } = await call('Changes', { from: mode.since }));
    }
    this.differences.replaceChildren(
      h('h2', {}, `Changed since ${clock(mode.since)}`),
      h('ul', { class: 'list', id: 'changes' }, (changes || []).map((c) => h('li', { 'data-key': c.key },
        h('strong', {}, c.key), h('span', { class: 'soft' }, ` ${clock(c.time)}`), h('br'), this.turned(c)))),
      (changes || []).length === 0 ? h('p', {}, 'Nothing.') : '');
    await this.go({ ...mode, title: `compared with ${clock(mode.since)}` });
  }

  // turned is from which state a key came to which; a moment has it only if it is another.
  turned({ before, after }) {
    if (before && after && !before.state && !after.state) {
      return 'has another value';
    }
    return [stateChip(before?.state || 'absent'), ' → ', stateChip(after?.state || 'absent')];
  }

  clear() {
    this.differences.replaceChildren();
  }
}
