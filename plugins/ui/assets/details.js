// What is known of a key: how it stands, why, what was done, and who asked for it.

import { call } from './api.js';
import { h, fill, stateChip, clock } from './dom.js';

export class Details {
  constructor(panel, pick) {
    this.panel = panel;
    this.pick = pick; // shows another key
    this.asked = 0;
  }

  // show fills the panel. Of two picks the last one counts, whichever is answered first. at is
  // a time of the past, or undefined.
  async show(box, at) {
    this.last = [box, at];
    const asked = ++this.asked;
    const key = box.key;
    if (!key) {
      this.fill(h('h2', {}, box.title), h('p', { class: 'soft' }, box.detail || ''));
      return;
    }
    let parts;
    try {
      parts = at ? await this.past(key, at) : await this.now(box);
    } catch (err) {
      if (asked === this.asked) {
        this.fill(h('h2', {}, key), h('p', { class: 'error', role: 'alert' }, err.message));
      }
      return;
    }
    if (asked === this.asked) {
      this.fill(h('h2', {}, key), ...parts);
    }
  }

  // again asks anew for what is shown, since something has changed.
  again() {
    if (this.last && !this.panel.contains(document.activeElement)) {
      this.show(...this.last);
    }
  }

  fill(...parts) {
    fill(this.panel, ...parts);
    this.panel.dataset.key = this.last[0].key || '';
  }

  async past(key, at) {
    const { keys } = await call('List', { targets: [key], at });
    return keys.flatMap((s) => [this.status(s), ...this.values(s)]);
  }

  async now(box) {
    const key = box.key;
    const maybe = (promise) => promise.catch(() => ({}));
    const [why, history, blame] = await Promise.all([
      call('Why', { key }), maybe(call('History', { key, limit: 20 })), maybe(call('Blame', { key })),
    ]);
    return [this.status(why.status || {}), this.why(why), ...this.values(why.status || {}), this.who(blame), this.history(history)];
  }

  // status is how the key stands.
  status(s) {
    return h('div', {},
      h('p', {}, stateChip(s.state || 'absent'), ' ', s.reason || '', s.since ? h('span', { class: 'soft' }, ' since ' + clock(s.since)) : ''),
      (s.fields || []).length > 0 && h('ul', { class: 'list' }, s.fields.map((f) => h('li', { class: 'error' }, `${f.field}: ${f.error}`))));
  }

  // values is what is wanted and what is there.
  values(s) {
    const part = (title, value) => value !== undefined && [h('h3', {}, title), h('pre', {}, JSON.stringify(value, null, 2))];
    const same = JSON.stringify(s.desired) === JSON.stringify(s.actual);
    return [
      part(same ? 'Desired, and actual' : 'Desired', s.desired), !same && part('Actual', s.actual), part('Metadata', s.metadata),
      (s.derived || []).length > 0 && [h('h3', {}, 'Derived'), h('ul', { class: 'list' }, s.derived.map((d) => h('li', {}, this.link(d.key), ' ', stateChip(d.state))))],
    ].flat();
  }

  link(key) {
    return h('button', { class: 'link', onclick: () => this.pick(key) }, key);
  }

  // why is the chain from the key to what blocks it, if something does.
  why(cause) {
    if (!(cause.roots || []).length && !(cause.because || []).length) {
      return false;
    }
    const roots = (cause.roots || []).map((r) => h('li', {}, r.text, r.advice ? h('strong', {}, '⇒ ' + r.advice) : ''));
    const chain = (c) => h('li', {}, this.link(c.status?.key || ''), ' ', stateChip(c.status?.state || 'absent'), ' ', h('span', {}, c.text || ''),
      (c.because || []).length > 0 && h('ul', { class: 'chain' }, c.because.map(chain)));
    return h('div', { id: 'why' }, h('h3', {}, 'Why'), roots.length > 0 && h('ul', { class: 'list', id: 'roots' }, roots), h('ul', { class: 'chain' }, chain(cause)));
  }

  who(b) {
    const deed = (title, d) => d && h('li', {}, `${title} ${d.op || ''} ${clock(d.time)}, transaction ${d.seq}`, d.source ? ` of ${d.source}` : '', d.note ? `: ${d.note}` : '');
    const w = b.written;
    return h('div', { id: 'blame' }, h('h3', {}, 'Who changed it'), h('ul', { class: 'list' },
      w && h('li', {}, w.by ? `written by ${w.by}` : 'not written through the agent', w.time ? ` ${clock(w.time)}` : '', w.message ? `: ${w.message}` : ''),
      deed('asked', b.asked), deed('made', b.made), (b.failures || []).map((d) => h('li', { class: 'error' }, `${d.op} failed ${clock(d.time)}: ${d.error}`))));
  }

  history({ records = [] }) {
    return h('div', { id: 'history' }, h('h3', {}, 'History'), h('ul', { class: 'list' }, records.reverse().map((r) => h('li', {},
      h('span', { class: 'soft' }, clock(r.time)), ` ${r.source || ''} ${r.note || ''} `,
      (r.done || []).filter((d) => d.key === this.last[0].key).map((d) => h('span', { class: d.error ? 'error' : '' }, `${d.op} ${d.error || ''} `))))));
  }
}
