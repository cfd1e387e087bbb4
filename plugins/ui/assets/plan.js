// What an intent file would do, and doing it, so that it goes back unless confirmed.

import { call, parse } from './api.js';
import { h, byId, fill, stateChip } from './dom.js';

export class Plan {
  constructor(go, trouble) {
    this.go = go;
    this.trouble = trouble;
    this.text = byId('intent');
    this.name = 'the text';
    byId('preview').addEventListener('click', () => this.preview());
    byId('file').addEventListener('change', (e) => this.read(e.target.files[0]));
    byId('apply').addEventListener('submit', (e) => {
      e.preventDefault();
      this.apply();
    });
    this.text.addEventListener('input', () => {
      this.name = 'the text';
      this.forget();
    });
    const panel = byId('plan');
    panel.addEventListener('dragover', (e) => e.preventDefault());
    panel.addEventListener('drop', (e) => {
      e.preventDefault();
      this.read(e.dataTransfer.files[0]);
    });
  }

  async read(file) {
    if (file) {
      this.text.value = await file.text();
      this.name = file.name;
      await this.preview();
    }
  }

  // forget: what is shown is not what the text says any more.
  forget() {
    this.plan = undefined;
    byId('apply').hidden = true;
    byId('planned').replaceChildren();
  }

  async preview() {
    this.forget();
    try {
      const items = await parse(this.text.value, this.name);
      if (items.length === 0) {
        throw new Error('there is no intent; a document is a key with its value (key: interface/web, value: {…})');
      }
      const map = await this.go({ plan: { items }, title: `what ${this.name} would do` });
      if (map) {
        this.show(map.plan || {});
      }
    } catch (err) {
      byId('planned').replaceChildren(h('p', { class: 'error' }, err.message));
    }
  }

  show(plan) {
    this.plan = plan;
    const steps = plan.steps || [], effects = plan.effects || [];
    const broken = effects.filter((e) => e.breaks), waiting = effects.filter((e) => !e.breaks && e.missing);
    fill(byId('planned'),
      h('h2', {}, steps.length === 0 ? 'Nothing is done' : `${steps.length} steps`),
      h('ol', { id: 'steps' }, steps.map((s) => h('li', {}, h('strong', {}, s.op), ` ${s.key} `, h('span', { class: 'soft' }, s.reason || '')))),
      broken.length > 0 && h('h2', { class: 'error' }, 'Breaks'),
      broken.length > 0 && h('ul', { id: 'broken' }, broken.map((e) => this.effect(e))),
      waiting.length > 0 && h('h2', {}, 'Will wait'),
      waiting.length > 0 && h('ul', {}, waiting.map((e) => this.effect(e))),
      plan.held && h('p', { class: 'error' }, plan.held),
      plan.notes && h('h2', {}, 'Notes'),
      plan.notes && h('ul', { id: 'notes' }, plan.notes.map((note) => h('li', {}, note))));
    byId('apply').hidden = !this.may || plan.unsaved !== undefined;
  }

  effect(e) {
    const missing = (e.missing || []).map((m) => `${m.need} (${m.why || ''})`).join(', ');
    return h('li', {}, `${e.key} `, stateChip(e.state), ` ${e.reason || ''} ${missing}`);
  }

  async apply() {
    try {
      const out = await call('Apply', {
        plan: this.plan, confirm: Number(byId('within').value) + 's', message: byId('message').value || undefined,
      });
      this.forget();
      this.confirmation(out.confirm);
      byId('planned').replaceChildren(h('p', {}, out.outcome, ' ', (out.notes || []).join('; ')));
      await this.go({});
    } catch (err) {
      byId('planned').append(h('p', { class: 'error', role: 'alert' }, err.message));
    }
  }

  // confirmation shows what waits to be confirmed, whoever made it.
  confirmation(c) {
    const panel = byId('confirm');
    clearInterval(this.ticking);
    panel.hidden = !c;
    if (!c) {
      return;
    }
    const left = h('strong', { id: 'left' });
    const tick = () => {
      const seconds = Math.max(0, Math.round((new Date(c.deadline) - Date.now()) / 1000));
      left.textContent = `${seconds} s`;
      if (seconds === 0) {
        clearInterval(this.ticking);
        setTimeout(() => this.ask(), 1000);
      }
    };
    const act = (method) => async () => {
      try {
        await call(method, { name: c.name });
      } catch (err) {
        this.trouble(err);
      }
      await this.ask();
    };
    panel.replaceChildren(h('p', {}, `The change of ${c.by || 'somebody'} goes back in `, left, c.reverting ? ` (going back: ${c.reverting})` : ''),
      h('p', { class: 'soft' }, (c.keys || []).join(' '), c.message ? ` — ${c.message}` : ''),
      this.may && h('p', {}, h('button', { id: 'keep', onclick: act('Confirm') }, 'Confirm'), ' ', h('button', { id: 'abort', onclick: act('Abort') }, 'Take it back')));
    tick();
    this.ticking = setInterval(tick, 1000);
  }

  // ask asks the agent what waits to be confirmed.
  async ask() {
    const status = await call('AgentStatus');
    this.confirmation(status.confirm);
    return status;
  }
}
