// The map: boxes and lines as the agent has laid them out. What is the same as before is not
// touched, so that a change costs as much as it changes.

import { look, inOrder } from './dom.js';

const svgNS = 'http://www.w3.org/2000/svg';
// Of more lines than these, those that are in order are faint.
const many = 40;
const lineID = (l) => `${l.from} ${l.to} ${l.kind}`;
const marks = { created: '+', changed: '~', removed: '−', broken: '✕' };

// Element is an SVG element that knows what was written to it.
class Element {
  constructor(owner, tag) {
    this.owner = owner;
    this.node = document.createElementNS(svgNS, tag);
    this.written = {};
  }

  set(attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      if (this.written[name] !== value) {
        this.written[name] = value;
        this.owner.writes++;
        if (name === 'text') {
          this.node.textContent = value;
        } else if (value === undefined) {
          this.node.removeAttribute(name);
        } else {
          this.node.setAttribute(name, value);
        }
      }
    }
  }
}

export class NetMap {
  constructor(svg, pick) {
    this.svg = svg;
    this.pick = pick;
    this.writes = 0;
    this.boxes = new Map(); // by id
    this.lines = new Map();
    this.data = { boxes: [], lines: [], width: 1, height: 1 };
    this.filter = () => true;
    this.view = { x: 0, y: 0, scale: 1 };
    this.fitted = true; // until somebody moves the map
    this.world = document.createElementNS(svgNS, 'g');
    this.boxLayer = document.createElementNS(svgNS, 'g');
    this.lineLayer = document.createElementNS(svgNS, 'g');
    this.lineLayer.setAttribute('aria-hidden', 'true');
    this.world.append(this.boxLayer, this.lineLayer);
    svg.append(this.world);
    this.listen();
  }

  draw(map) {
    this.data = { boxes: map.boxes || [], lines: map.lines || [], width: map.width || 1, height: map.height || 1 };
    this.parents = new Map(this.data.boxes.map((b) => [b.id, b.parent]));
    this.update(this.boxLayer, this.boxes, this.data.boxes, (b) => b.id, () => this.newBox(), (e, b) => this.drawBox(e, b));
    this.lineLayer.setAttribute('class', this.data.lines.length > many ? 'many' : '');
    this.update(this.lineLayer, this.lines, this.data.lines, lineID, () => new Element(this, 'polyline'), (e, l) => this.drawLine(e, l));
    if (!this.boxes.has(this.focused)) {
      this.focus(this.data.boxes[0]?.id, false);
    }
    if (this.fitted) {
      this.fit();
    }
  }

  // update brings a layer to a list: each has one element, in the order of the list.
  update(layer, elements, list, key, make, draw) {
    const wanted = new Set(list.map(key));
    for (const [k, e] of elements) {
      if (!wanted.has(k)) {
        e.node.remove();
        elements.delete(k);
        this.writes++;
      }
    }
    let next = layer.firstChild;
    for (const one of list) {
      let e = elements.get(key(one));
      if (!e) {
        e = make();
        elements.set(key(one), e);
      }
      draw(e, one);
      if (e.node === next) {
        next = next.nextSibling;
      } else {
        layer.insertBefore(e.node, next);
        this.writes++;
      }
    }
  }

  newBox() {
    const g = new Element(this, 'g');
    for (const [part, tag] of [['rect', 'rect'], ['text', 'text'], ['title', 'tspan'], ['sign', 'tspan'], ['detail', 'tspan']]) {
      g[part] = new Element(this, tag);
      (tag === 'tspan' ? g.text : g).node.append(g[part].node);
    }
    g.set({ role: 'button', tabindex: '-1' });
    g.title.set({ class: 'title' });
    g.detail.set({ class: 'detail' });
    g.sign.set({ class: 'sign', dx: 6 });
    return g;
  }

  drawBox(g, b) {
    const [name, sign] = look(b.state);
    const classes = ['box', b.parent ? 'inner' : 'place', name, b.mark];
    if (!this.filter(b)) {
      classes.push('dim');
    }
    if (b.id === this.picked) {
      classes.push('picked');
    }
    const text = [b.key ? b.kind : '', b.title, b.detail].filter(Boolean).join(' ');
    const said = [text, b.state, b.mark, b.reason].filter(Boolean).join(', ');
    g.set({ class: classes.filter(Boolean).join(' '), 'data-id': b.id, 'data-state': b.state || '', 'data-mark': b.mark || '', 'aria-label': said });
    const x = b.x || 0, y = b.y || 0;
    g.rect.set({ x, y, width: b.width, height: b.height, rx: b.parent ? 4 : 7 });
    const flat = b.height < 30; // one line
    g.title.set({ x: x + 8, y: y + 15, text: `${b.title || ''} ` });
    g.detail.set({ x: flat ? undefined : x + 8, y: flat ? undefined : y + 30, dx: flat ? 6 : undefined, text: b.detail || '' });
    g.sign.set({ text: b.mark ? marks[b.mark] : inOrder(b.state) ? '' : sign });
  }

  drawLine(e, l) {
    const points = [];
    for (let i = 0; i + 1 < (l.points || []).length; i += 2) {
      points.push(`${l.points[i]},${l.points[i + 1]}`);
    }
    const classes = [l.kind, l.satisfied ? '' : 'down', l.mark, this.isIn(l.from, this.picked) || this.isIn(l.to, this.picked) ? 'picked' : ''];
    e.set({ class: classes.filter(Boolean).join(' '), points: points.join(' ') });
  }

  isIn(id, outer) {
    while (id && id !== outer) {
      id = this.parents.get(id);
    }
    return Boolean(id);
  }

  // redraw is for what is not of the agent: filter and pick.
  redraw() {
    for (const b of this.data.boxes) {
      this.drawBox(this.boxes.get(b.id), b);
    }
    for (const l of this.data.lines) {
      this.drawLine(this.lines.get(lineID(l)), l);
    }
  }

  show(filter) {
    this.filter = filter;
    this.redraw();
    return this.data.boxes.filter((b) => b.key && filter(b));
  }

  choose(id) {
    this.picked = id;
    this.redraw();
  }

  // focus moves the one box that the tab key stops at.
  focus(id, move = true) {
    this.boxes.get(this.focused)?.set({ tabindex: '-1' });
    this.focused = id;
    const e = this.boxes.get(id);
    e?.set({ tabindex: '0' });
    if (e && move) {
      this.reveal(id);
      e.node.focus({ preventScroll: true });
    }
  }

  listen() {
    this.svg.addEventListener('click', (e) => {
      const id = e.target.closest?.('.box')?.dataset.id;
      if (id && !this.dragged) {
        this.focus(id);
        this.pick(id);
      }
    });
    this.svg.addEventListener('keydown', (e) => this.key(e));
    new ResizeObserver(() => this.fitted && this.fit()).observe(this.svg);
    this.svg.addEventListener('wheel', (e) => {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY / 500), e.offsetX, e.offsetY);
    }, { passive: false });
    this.svg.addEventListener('pointerdown', (e) => {
      this.dragged = false;
      this.drag = { x: e.clientX, y: e.clientY, from: { ...this.view } };
    });
    window.addEventListener('pointermove', (e) => {
      if (!this.drag) {
        return;
      }
      const dx = e.clientX - this.drag.x, dy = e.clientY - this.drag.y;
      if (this.dragged || Math.hypot(dx, dy) > 4) {
        this.dragged = true;
        this.move(this.drag.from.x + dx, this.drag.from.y + dy, this.view.scale);
      }
    });
    window.addEventListener('pointerup', () => { this.drag = undefined; });
  }

  key(e) {
    const at = this.data.boxes.find((b) => b.id === this.focused);
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if ((e.key === 'Enter' || e.key === ' ') && at) {
      this.pick(at.id);
    } else if (steps[e.key] && at) {
      const to = this.nearest(at, ...steps[e.key]);
      if (to) {
        this.focus(to.id);
      }
    } else if (e.key === '+' || e.key === '-') {
      this.zoom(e.key === '+' ? 1.25 : 0.8);
    } else {
      return;
    }
    e.preventDefault();
  }

  // nearest is the next box in a direction: near along it, and not far beside it.
  nearest(from, dx, dy) {
    const middle = (b) => [(b.x || 0) + Math.min(b.width, 60) / 2, (b.y || 0) + 10];
    const [fx, fy] = middle(from);
    let best, least = Infinity;
    for (const b of this.data.boxes) {
      const [x, y] = middle(b);
      const along = (x - fx) * dx + (y - fy) * dy, beside = Math.abs((x - fx) * dy) + Math.abs((y - fy) * dx);
      if (b.id !== from.id && along > 0 && along + 3 * beside < least) {
        best = b;
        least = along + 3 * beside;
      }
    }
    return best;
  }

  move(x, y, scale) {
    this.fitted = false;
    this.view = { x, y, scale };
    this.world.setAttribute('transform', `translate(${x} ${y}) scale(${scale})`);
  }

  zoom(by, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.05, this.view.scale * by));
    const k = scale / this.view.scale;
    this.move(x - (x - this.view.x) * k, y - (y - this.view.y) * k, scale);
  }

  fit() {
    const w = this.svg.clientWidth || 1, h = this.svg.clientHeight || 1;
    const scale = Math.min(1.2, Math.max(0.05, Math.min(w / this.data.width, h / this.data.height)));
    this.move(Math.max(0, (w - this.data.width * scale) / 2), 0, scale);
    this.fitted = true;
  }

  // reveal brings a box into sight.
  reveal(id) {
    const b = this.data.boxes.find((one) => one.id === id);
    if (!b) {
      return;
    }
    const { scale } = this.view;
    let { x, y } = this.view;
    const left = (b.x || 0) * scale + x, top = (b.y || 0) * scale + y;
    const right = left + Math.min(b.width, 300) * scale, bottom = top + Math.min(b.height, 100) * scale;
    if (left < 0 || right > this.svg.clientWidth) {
      x += this.svg.clientWidth / 2 - (left + right) / 2;
    }
    if (top < 0 || bottom > this.svg.clientHeight) {
      y += this.svg.clientHeight / 2 - (top + bottom) / 2;
    }
    if (x !== this.view.x || y !== this.view.y) {
      this.move(x, y, scale);
    }
  }
}
