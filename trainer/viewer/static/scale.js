"use strict";
// Colours by value. Advantages and rewards part at 0; everything else runs from its least to its largest. A value always stands in words
// beside its colour as well.

const DIVERGING = ["#b2182b", "#cf5246", "#e58368", "#f4b394", "#f9d9c8", "#c9c9c9", "#cfe3ef", "#9ccae1", "#5fa5cd", "#3480b9", "#1f5fa2"];
const SEQUENTIAL = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];
const UNKNOWN = "#8a8a8a";

class Scale {
  constructor(name, values) {
    this.name = name;
    const known = values.filter((value) => value !== null);
    const [low, high] = bounds(known);
    this.diverging = name === "advantage" || name === "reward";
    this.low = known.length ? low : 0;
    this.high = known.length ? high : 0;
    if (this.diverging) {
      const reach = Math.max(Math.abs(this.low), Math.abs(this.high)) || 1;
      [this.low, this.high] = [-reach, reach];
    }
    this.colours = this.diverging ? DIVERGING : SEQUENTIAL;
  }

  bucket(value) {
    if (value === null || value === undefined) return -1;
    const share = this.high > this.low ? (value - this.low) / (this.high - this.low) : 0.5;
    return Math.max(0, Math.min(this.colours.length - 1, Math.floor(share * this.colours.length)));
  }

  colour(value) {
    const bucket = this.bucket(value);
    return bucket < 0 ? UNKNOWN : this.colours[bucket];
  }

  legend() {
    const bar = el("span", { class: "bar", "aria-hidden": "true" });
    for (const colour of this.colours) {
      const cell = el("span");
      cell.style.background = colour;
      bar.append(cell);
    }
    return el("span", { class: "legend" }, number(this.low), bar, number(this.high));
  }
}
