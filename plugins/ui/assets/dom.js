// Elements, and how states look.

// h makes an element. Properties that begin with "on" are listeners; texts are never HTML.
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith('on')) {
      e.addEventListener(name.slice(2), value);
    } else if (value !== undefined && value !== false) {
      e.setAttribute(name, value === true ? '' : value);
    }
  }
  e.append(...there(children));
  return e;
}

// fill has an element hold these children and no others.
export function fill(e, ...children) {
  e.replaceChildren(...there(children));
}

// there are children without those that an && has left out.
const there = (children) => children.flat().filter((c) => c !== undefined && c !== null && c !== false);

export const byId = (id) => document.getElementById(id);

const looks = {
  configured: ['good', '✓'], observed: ['good', '·'],
  pending: ['wait', '…'], unknown: ['wait', '?'], retrying: ['bad', '↻'],
  failed: ['bad', '✕'], invalid: ['bad', '!'], unimplemented: ['bad', '∄'],
  drifted: ['strange', '≠'],
  paused: ['held', '‖'], absent: ['held', '∅'], removed: ['held', '−'], leftover: ['held', '⌫'],
};

// look is the class and the sign of a state.
export const look = (state) => looks[state] || ['', ''];

export const inOrder = (state) => state === '' || state === undefined || state === 'configured' || state === 'observed';

export function stateChip(state, more = '') {
  const [name, sign] = look(state);
  return h('span', { class: 'state ' + name }, sign + ' ' + state + more);
}

export function clock(time) {
  return time ? new Date(time).toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' }) : '';
}
