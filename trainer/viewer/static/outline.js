"use strict";
// The tree in words: one line per turn, of which only those in sight are in the document; it is a `tree` to screen readers.

const OUTLINE_PX = 24;

class Outline {
  constructor(tree, drawing, choose) {
    this.tree = tree;
    this.drawing = drawing;
    this.choose = choose;
    this.selected = -1;
    this.words = "";
    this.list = el("div", { class: "lines", role: "presentation" });
    this.element = el("div", { class: "outline", role: "tree", tabindex: "0", "aria-label": "turns" }, this.list);
    this.element.addEventListener("scroll", () => requestAnimationFrame(() => this.show()));
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.refresh();
  }

  refresh() {
    const { hidden } = this.drawing;
    this.lines = this.tree.order.filter((turn) => !hidden[turn] && (!this.words || this.tree.action[turn].toLowerCase().includes(this.words)));
    this.list.style.height = `${this.lines.length * OUTLINE_PX}px`;
    this.show();
  }

  search(words) {
    this.words = words.toLowerCase();
    this.refresh();
    return this.lines.length;
  }

  show() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / OUTLINE_PX) - 4);
    const end = Math.min(this.lines.length, first + Math.ceil((this.element.clientHeight || 600) / OUTLINE_PX) + 8);
    const shown = [];
    for (let place = first; place < end; place += 1) shown.push(this.item(this.lines[place], place));
    this.list.replaceChildren(...shown);
    const active = this.lines.indexOf(this.selected);
    if (active >= first && active < end) this.element.setAttribute("aria-activedescendant", `turn-${this.selected}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  item(turn, place) {
    const { tree, drawing } = this;
    const open = !drawing.closed.has(turn);
    const end = tree.end[turn];
    const forked = tree.origin[turn] && tree.parent[turn] >= 0;
    const node = el("div", {
      role: "treeitem", id: `turn-${turn}`, "data-turn": turn, "aria-level": tree.level[turn] + 1, "aria-selected": String(turn === this.selected),
      "aria-expanded": drawing.children[turn].length > 1 || !open ? String(open) : null, class: tree.valid[turn] ? "line" : "line refused",
    }, el("span", { class: "turn" }, String(turn)), forked ? el("span", { class: "forked", title: tree.origin[turn][1] }, "↳ ") : null,
    tree.action[turn] || "(nothing)", end ? el("span", { class: end === "solved" ? "ended solved" : "ended" }, end === "solved" ? " ✓ solved" : ` ✕ ${end}`) : null);
    node.style.top = `${place * OUTLINE_PX}px`;
    node.style.paddingLeft = `${8 + 14 * Math.min(tree.level[turn], 12)}px`;
    return node;
  }

  select(turn) {
    this.selected = turn;
    this.refresh();
    const place = this.lines.indexOf(turn);
    if (place < 0) return;
    const top = place * OUTLINE_PX;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top > scrollTop + clientHeight - OUTLINE_PX) this.element.scrollTop = top - clientHeight / 2;
    this.show();
  }

  click(event) {
    const line = event.target.closest("[data-turn]");
    if (line) this.choose(Number(line.dataset.turn));
  }

  key(event) {
    const place = this.lines.indexOf(this.selected);
    const page = Math.floor(this.element.clientHeight / OUTLINE_PX);
    const places = { ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: this.lines.length - 1 };
    if (event.key in places) {
      const turn = this.lines[Math.max(0, Math.min(this.lines.length - 1, places[event.key]))];
      if (turn !== undefined) this.choose(turn);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.openOrMove(event.key === "ArrowRight");
    else return;
    event.preventDefault();
  }

  openOrMove(right) {
    const turn = this.selected;
    if (turn < 0) return;
    const closed = this.drawing.closed.has(turn);
    if (right ? closed : !closed && this.drawing.children[turn].length > 1) {
      this.drawing.toggle(turn);
      this.refresh();
    } else {
      const next = right ? this.drawing.children[turn][0] : this.tree.parent[turn];
      if (next !== undefined && next >= 0) this.choose(next);
    }
  }
}
