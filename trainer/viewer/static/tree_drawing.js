"use strict";
// The tree as SVG. Only what can be seen, and a margin around it, is in the document; moving changes one attribute until the margin ends.
// Far away, nodes of one colour are one path, so that thousands of them move as fast as a few.

const COLUMN_PX = 150;
const LINE_PX = 32;
const NEAR = 0.45; // the scale above which turns are single elements
const LABELLED = 0.7; // the scale above which their actions are written beside them
const MOVED_PX = 4;

class TreeDrawing {
  constructor(tree, choose) {
    this.tree = tree;
    this.choose = choose;
    this.count = tree.parent.length;
    this.children = Array.from({ length: this.count }, () => []);
    tree.parent.forEach((parent, turn) => parent >= 0 && this.children[parent].push(turn));
    this.closed = new Set();
    this.folded = tree.columns > 8;
    this.scale = new Scale("advantage", tree.colours.advantage);
    this.selected = -1;
    this.view = { scale: 1, x: 24, y: 24 };
    this.edges = svg("path", { class: "edges" });
    this.marks = svg("g", {});
    this.group = svg("g", {}, this.edges, this.marks);
    this.element = svg("svg", { class: "drawing", "aria-hidden": "true" }, this.group);
    this.frame = el("div", { class: "canvas", tabindex: "0", role: "group", "aria-label":
      "drawing of the tree; arrow keys move along it, plus and minus zoom, 0 shows all of it; the outline beside it says the same in words" }, this.element);
    this.listen();
    this.arrange();
  }

  // Where every visible turn stands: rows of what is closed close up, and in a folded drawing turns without a choice take no column.
  arrange() {
    const { tree, count } = this;
    this.hidden = new Uint8Array(count);
    this.place = new Float64Array(count);
    const seen = new Uint8Array(tree.rows);
    for (const turn of tree.order) {
      const parent = tree.parent[turn];
      this.hidden[turn] = parent >= 0 && (this.hidden[parent] === 1 || this.closed.has(parent)) ? 1 : 0;
      if (!this.hidden[turn]) seen[tree.row[turn]] = 1;
      this.place[turn] = this.folded ? (parent < 0 ? 0 : this.place[parent] + (this.isKey(turn) ? 1 : 0)) : tree.column[turn];
    }
    this.line = new Float64Array(tree.rows);
    let lines = 0;
    for (let row = 0; row < tree.rows; row += 1) {
      this.line[row] = lines;
      lines += seen[row];
    }
    this.lines = lines;
    this.xs = Float64Array.from({ length: count }, (_, turn) => this.place[turn] * COLUMN_PX);
    this.ys = Float64Array.from({ length: count }, (_, turn) => this.line[tree.row[turn]] * LINE_PX);
    this.width = (bounds(this.place)[1] + 1) * COLUMN_PX;
    this.built = null;
    this.draw();
  }

  isKey(turn) {
    const parent = this.tree.parent[turn];
    return parent < 0 || this.children[parent].length > 1 || this.children[turn].length !== 1 || turn === this.selected;
  }

  isDrawn(turn) {
    return !this.hidden[turn] && (!this.folded || this.isKey(turn));
  }

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      const { scale, x, y } = this.view;
      this.group.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
      if (!this.covers()) this.build();
    });
  }

  seen() {
    const { scale, x, y } = this.view;
    const [width, height] = [this.frame.clientWidth, this.frame.clientHeight];
    return { left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale };
  }

  detail() {
    return this.view.scale < NEAR ? 0 : this.view.scale < LABELLED ? 1 : 2;
  }

  covers() {
    if (!this.built || this.built.detail !== this.detail()) return false;
    const [seen, built] = [this.seen(), this.built];
    return (seen.left >= built.left || built.left <= -COLUMN_PX) && (seen.top >= built.top || built.top <= -LINE_PX)
      && (seen.right <= built.right || built.right >= this.width) && (seen.bottom <= built.bottom || built.bottom >= this.lines * LINE_PX);
  }

  build() {
    const seen = this.seen();
    const [wide, high] = [seen.right - seen.left, seen.bottom - seen.top];
    const share = this.detail() === 0 ? 4 : 0.7;
    const area = { left: seen.left - share * wide, right: seen.right + share * wide, top: seen.top - share * high, bottom: seen.bottom + share * high };
    this.built = { ...area, detail: this.detail() };
    const inside = [];
    for (let turn = 0; turn < this.count; turn += 1) {
      if (this.isDrawn(turn) && this.xs[turn] > area.left - COLUMN_PX && this.xs[turn] < area.right && this.ys[turn] > area.top && this.ys[turn] < area.bottom) inside.push(turn);
    }
    this.buildEdges(area);
    if (this.detail() === 0) this.buildFar(inside);
    else this.buildNear(inside);
  }

  buildEdges(area) {
    const parts = [];
    for (let turn = 0; turn < this.count; turn += 1) {
      if (!this.isDrawn(turn)) continue;
      const parent = this.drawnParent(turn);
      if (parent < 0) continue;
      const [px, py, x, y] = [this.xs[parent], this.ys[parent], this.xs[turn], this.ys[turn]];
      if (x < area.left || px > area.right || y < area.top || py > area.bottom) continue;
      parts.push(py === y ? `M${px} ${py}H${x}` : `M${px} ${py}C${px + 40} ${py} ${px + 30} ${y} ${px + 70} ${y}H${x}`);
    }
    this.edges.setAttribute("d", parts.join(""));
  }

  drawnParent(turn) {
    let parent = this.tree.parent[turn];
    while (parent >= 0 && !this.isDrawn(parent)) parent = this.tree.parent[parent];
    return parent;
  }

  buildFar(inside) {
    const paths = new Map();
    const values = this.tree.colours[this.scale.name];
    for (const turn of inside) {
      const bucket = this.scale.bucket(values[turn]);
      const size = this.tree.end[turn] ? 16 : 12;
      if (!paths.has(bucket)) paths.set(bucket, []);
      paths.get(bucket).push(`M${this.xs[turn] - size / 2} ${this.ys[turn] - size / 2}h${size}v${size}h-${size}z`);
    }
    const drawn = [...paths].map(([bucket, parts]) => {
      const path = svg("path", { d: parts.join(""), class: "far" });
      path.style.fill = bucket < 0 ? UNKNOWN : this.scale.colours[bucket];
      return path;
    });
    if (this.selected >= 0) drawn.push(svg("circle", { class: "chosen", cx: this.xs[this.selected], cy: this.ys[this.selected], r: 26 }));
    this.marks.replaceChildren(...drawn);
  }

  buildNear(inside) {
    const labelled = this.detail() === 2;
    this.marks.replaceChildren(...inside.map((turn) => this.mark(turn, labelled)));
  }

  mark(turn, labelled) {
    const { tree } = this;
    const [x, y, end] = [this.xs[turn], this.ys[turn], tree.end[turn]];
    const node = svg("g", { transform: `translate(${x} ${y})`, "data-turn": turn, class: turn === this.selected ? "node chosen" : "node" });
    const fill = this.scale.colour(tree.colours[this.scale.name][turn]);
    const shape = end ? svg("rect", { x: -7, y: -7, width: 14, height: 14, rx: end === "solved" ? 7 : 1 }) : svg("circle", { r: 6 });
    shape.style.fill = fill;
    node.append(svg("title", {}, this.told(turn)), shape);
    if (end) node.append(svg("text", { class: "end", y: 4, "text-anchor": "middle" }, end === "solved" ? "✓" : "✕"));
    if (tree.origin[turn] && tree.parent[turn] >= 0) node.append(svg("path", { class: "fork", d: "M-12 -4l6 4l-6 4z" }));
    const parent = this.drawnParent(turn);
    const skipped = parent < 0 ? 0 : tree.column[turn] - tree.column[parent] - 1;
    if (skipped) node.append(svg("text", { class: "skipped", x: -14, y: -4, "text-anchor": "end" }, `+${skipped}`));
    if (this.closed.has(turn)) node.append(svg("text", { class: "closed", x: 10, y: 4 }, "+"));
    if (labelled) {
      const label = tree.action[turn] || "(nothing)";
      node.append(svg("text", { class: tree.valid[turn] ? "label" : "label refused", x: 11, y: 4 }, label.length > 20 && !end ? `${label.slice(0, 19)}…` : label));
      const origin = tree.origin[turn];
      if (origin && tree.parent[turn] >= 0) node.append(svg("text", { class: "why", x: 11, y: -6 }, `${origin[1]} ${origin[2] === null ? "" : number(origin[2], 2)}`));
    }
    return node;
  }

  told(turn) {
    const { tree } = this;
    const value = tree.colours[this.scale.name][turn];
    const end = tree.end[turn] ? `, ${tree.end[turn]}` : "";
    return `turn ${turn}: ${tree.action[turn]}; ${this.scale.name} ${number(value)}${end}`;
  }

  colour(name) {
    this.scale = new Scale(name, this.tree.colours[name]);
    this.built = null;
    this.draw();
  }

  fold(folded) {
    this.folded = folded;
    this.arrange();
  }

  toggle(turn) {
    if (!this.children[turn].length) return;
    if (!this.closed.delete(turn)) this.closed.add(turn);
    this.arrange();
  }

  select(turn, follow = true) {
    this.selected = turn;
    for (let above = this.tree.parent[turn]; above >= 0; above = this.tree.parent[above]) this.closed.delete(above);
    this.arrange();
    if (follow) this.bring(turn);
  }

  bring(turn) {
    const { scale } = this.view;
    const [x, y] = [this.xs[turn] * scale + this.view.x, this.ys[turn] * scale + this.view.y];
    const [width, height] = [this.frame.clientWidth, this.frame.clientHeight];
    if (x < 8 || x > width - 120) this.view.x += width / 3 - x;
    if (y < 8 || y > height - 20) this.view.y += height / 2 - y;
    this.draw();
  }

  // All of it, or, to begin with, at least so large that it can be read.
  fit(least = 0.02) {
    const [width, height] = [this.frame.clientWidth - 40, this.frame.clientHeight - 40];
    const scale = Math.min(1, Math.max(least, Math.min(width / this.width, height / (this.lines * LINE_PX || 1))));
    this.view = { scale, x: 24, y: 24 };
    this.built = null;
    this.draw();
  }

  zoom(factor, x = this.frame.clientWidth / 2, y = this.frame.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.01, this.view.scale * factor));
    const change = scale / this.view.scale;
    this.view = { scale, x: x - (x - this.view.x) * change, y: y - (y - this.view.y) * change };
    this.draw();
  }

  listen() {
    let held = null;
    this.frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.frame.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    this.frame.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, y: event.clientY, moved: false, target: event.target };
      this.frame.setPointerCapture(event.pointerId);
    });
    this.frame.addEventListener("pointermove", (event) => {
      if (!held) return;
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.hypot(dx, dy) < MOVED_PX) return;
      Object.assign(held, { x: event.clientX, y: event.clientY, moved: true });
      this.view.x += dx;
      this.view.y += dy;
      this.draw();
    });
    this.frame.addEventListener("pointerup", (event) => {
      const clicked = held && !held.moved ? this.at(event) : -1;
      held = null;
      if (clicked >= 0) this.choose(clicked);
    });
    this.frame.addEventListener("dblclick", (event) => {
      const turn = this.at(event);
      if (turn >= 0) this.toggle(turn);
    });
    this.frame.addEventListener("keydown", (event) => this.key(event));
  }

  // The turn under the pointer, by its place: far away turns are not elements of their own.
  at(event) {
    const box = this.frame.getBoundingClientRect();
    const { scale } = this.view;
    const [x, y] = [(event.clientX - box.left - this.view.x) / scale, (event.clientY - box.top - this.view.y) / scale];
    let [found, nearest] = [-1, Math.max(14, 10 / scale)];
    for (let turn = 0; turn < this.count; turn += 1) {
      if (!this.isDrawn(turn) || Math.abs(this.ys[turn] - y) > nearest) continue;
      const labelled = this.view.scale >= LABELLED && x > this.xs[turn] && x < this.xs[turn] + COLUMN_PX - 16;
      const distance = labelled ? Math.abs(this.ys[turn] - y) : Math.hypot(this.xs[turn] - x, this.ys[turn] - y);
      if (distance < nearest) [found, nearest] = [turn, distance];
    }
    return found;
  }

  key(event) {
    const moves = { ArrowLeft: () => this.tree.parent[this.selected], ArrowRight: () => this.children[this.selected]?.[0],
      ArrowUp: () => this.beside(-1), ArrowDown: () => this.beside(1) };
    const others = { "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(),
      Enter: () => this.toggle(this.selected) };
    if (moves[event.key]) {
      const turn = this.selected < 0 ? 0 : moves[event.key]();
      if (turn !== undefined && turn >= 0) this.choose(turn);
    } else if (others[event.key]) others[event.key]();
    else return;
    event.preventDefault();
  }

  // The next turn of the same column, above or below.
  beside(step) {
    const column = this.tree.column[this.selected];
    const same = this.tree.order.filter((turn) => this.tree.column[turn] === column && !this.hidden[turn]);
    return same[same.indexOf(this.selected) + step];
  }
}
