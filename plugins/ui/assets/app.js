// The page: one map, and beside it details, timeline and plan.
//
//   Watch ─► refresh ─► Map ─► NetMap.draw
//
// What the map shows is the mode: now ({}), a time ({at}), a comparison ({since}) or a plan
// ({plan}). Only what is now follows the agent.

import { call, stream, Refusal } from './api.js';
import { h, byId, inOrder, look } from './dom.js';
import { NetMap } from './map.js';
import { Details } from './details.js';
import { Timeline } from './timeline.js';
import { Plan } from './plan.js';

let mode = {};
let asked = 0;

const map = new NetMap(byId('map'), pick);
const details = new Details(byId('details'), pickKey);
const timeline = new Timeline(go, trouble);
const plan = new Plan(go, trouble);

function trouble(err) {
  const text = err ? err.message : '';
  byId('trouble').textContent = text;
  byId('trouble').hidden = !text;
}

// go changes what the map shows and returns it, or nothing if it could not be had or is not
// wanted any more.
async function go(to) {
  mode = to;
  byId('mode').hidden = !to.title;
  byId('modetext').textContent = to.title || '';
  if (!to.since) {
    timeline.clear();
  }
  return draw(true);
}

// refused reports whether the agent would answer the same if it was asked again.
const refused = (err) => err instanceof Refusal && ['permission_denied', 'unauthenticated'].includes(err.code);

// draw fetches the map of the mode. Of two that are under way the later one counts. It is null
// if that failed and may be tried again.
async function draw(strict) {
  const mine = ++asked;
  const { at, since } = mode;
  let answer;
  try {
    answer = await call('Map', { at, since, plan: mode.plan });
  } catch (err) {
    if (strict && mode.plan) {
      mode = {};
      byId('mode').hidden = true;
      throw err;
    }
    trouble(err);
    return refused(err) ? undefined : null;
  }
  if (mine !== asked) {
    return undefined;
  }
  trouble();
  map.draw(answer);
  count(answer.boxes || []);
  search();
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
  document.body.dataset.writes = String(map.writes);
  return answer;
}

// refresh shows soon what has changed: one call at a time, and one more round if something came
// meanwhile. It rests for as long as a round takes, so that many changes take half of the agent's
// time at most, and for a second if the map could not be fetched.
let drawing = false, again = false;
async function refresh() {
  if (drawing) {
    again = true;
    return;
  }
  drawing = true;
  try {
    do {
      again = false;
      const began = performance.now();
      let rest = 0;
      if (!mode.title) {
        if (await draw() === null) {
          again = true;
          rest = 1000;
        }
        if (!byId('details').hidden) {
          details.again();
        }
        if (!byId('timeline').hidden) {
          await timeline.load().catch(trouble);
        }
      }
      await plan.ask().catch(() => {}); // it is told by the stream if the agent is away
      await pause(Math.max(rest, performance.now() - began));
    } while (again);
  } finally {
    drawing = false;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function count(boxes) {
  const states = {}, kinds = new Set();
  for (const b of boxes) {
    if (b.key) {
      states[b.state] = (states[b.state] || 0) + 1;
      kinds.add(b.kind);
    }
  }
  const chips = Object.keys(states).sort().map((s) => h('li', { class: 'state ' + look(s)[0] }, `${look(s)[1]} ${states[s]} ${s}`));
  if (byId('counts').textContent !== chips.map((c) => c.textContent).join('')) {
    byId('counts').replaceChildren(...chips);
  }
  choices(byId('state'), Object.keys(states).sort(), 2);
  choices(byId('kind'), [...kinds].sort(), 1);
}

// choices keeps the first options, and what is chosen.
function choices(select, names, keep) {
  const all = [...select.options].slice(keep).map((o) => o.value);
  if (all.join() !== names.join()) {
    const chosen = select.value;
    select.replaceChildren(...[...select.options].slice(0, keep), ...names.map((n) => h('option', { value: n }, n)));
    select.value = chosen;
    if (select.selectedIndex < 0) {
      select.value = '';
    }
  }
}

function search() {
  const text = byId('search').value.trim().toLowerCase(), state = byId('state').value, kind = byId('kind').value;
  const filter = (b) => (!text || `${b.key || ''} ${b.title || ''} ${b.detail || ''}`.toLowerCase().includes(text)) &&
    (!state || b.state === state || state === '!' && !inOrder(b.state)) && (!kind || b.kind === kind);
  const found = map.show(filter);
  byId('found').textContent = text || state || kind ? `${found.length} found` : '';
  return found;
}

function pick(id) {
  const box = map.data.boxes.find((b) => b.id === id);
  map.choose(id);
  tab('details');
  return details.show(box, mode.at);
}

function pickKey(key) {
  const box = map.data.boxes.find((b) => b.key === key);
  if (box) {
    map.focus(box.id, false);
    map.reveal(box.id);
    pick(box.id);
  } else {
    details.show({ key }, mode.at);
  }
}

const tabs = ['details', 'timeline', 'plan'];

function tab(name) {
  for (const t of tabs) {
    byId(t).hidden = t !== name;
    byId('tab-' + t).setAttribute('aria-selected', String(t === name));
    byId('tab-' + t).tabIndex = t === name ? 0 : -1;
  }
  if (name === 'timeline') {
    timeline.load().catch(trouble);
  }
}

function listen() {
  for (const t of tabs) {
    byId('tab-' + t).addEventListener('click', () => tab(t));
    byId('tab-' + t).addEventListener('keydown', (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (step) {
        const to = tabs[(tabs.indexOf(t) + step + tabs.length) % tabs.length];
        tab(to);
        byId('tab-' + to).focus();
      }
    });
  }
  byId('back').addEventListener('click', () => go({}));
  byId('in').addEventListener('click', () => map.zoom(1.25));
  byId('out').addEventListener('click', () => map.zoom(0.8));
  byId('fit').addEventListener('click', () => map.fit());
  for (const id of ['search', 'state', 'kind']) {
    byId(id).addEventListener('input', search);
  }
  byId('search').addEventListener('keydown', (e) => {
    const found = e.key === 'Enter' && search()[0];
    if (found) {
      map.focus(found.id);
      pick(found.id);
    }
  });
  document.addEventListener('keydown', (e) => {
    const typing = ['INPUT', 'TEXTAREA', 'SELECT'].includes(document.activeElement?.tagName);
    if (e.key === '/' && !typing) {
      byId('search').focus();
      e.preventDefault();
    } else if (e.key === 'Escape' && mode.title) {
      go({});
    }
  });
}

// follow keeps the map true to the agent. A stream that breaks is made anew, later and later.
async function follow() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 30000)) {
    try {
      for await (const message of stream('Watch', { no_values: true })) {
        wait = 500;
        if (message.in_sync || message.changes) {
          live(true);
          refresh();
        }
      }
    } catch (err) {
      if (err instanceof Refusal && ['permission_denied', 'unauthenticated'].includes(err.code)) {
        trouble(err);
        return;
      }
    }
    live(false, wait);
    await pause(wait);
  }
}

function live(yes, wait) {
  const text = yes ? 'live' : `the agent does not answer; next try in ${Math.ceil(wait / 1000)} s`;
  if (byId('live').textContent !== text) {
    byId('live').textContent = text;
  }
}

async function begin() {
  listen();
  try {
    const [version, status] = await Promise.all([call('Version'), plan.ask()]);
    plan.may = version.role !== 'viewer';
    plan.confirmation(status.confirm);
    byId('label').textContent = version.label || '';
    document.title = `Plumb ${version.label || ''}`;
  } catch (err) {
    trouble(err);
  }
  follow();
}

begin();
