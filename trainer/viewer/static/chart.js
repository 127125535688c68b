"use strict";
// Curves over iterations, with the numbers as a table for those who would rather read them.

const CHART = { width: 420, height: 190, left: 46, right: 10, top: 10, bottom: 26 };
const CURVES = ["var(--curve-1)", "var(--curve-2)", "var(--curve-3)", "var(--curve-4)", "var(--curve-5)", "var(--curve-6)"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 2", "10 4"];

function chart(title, records, figures, format = number) {
  const curves = figures.map(([name, label]) => ({
    label,
    points: records.filter((record) => record[name] !== undefined).map((record) => [record.iteration, record[name]]),
  })).filter((curve) => curve.points.length);
  if (!curves.length) return null;
  const all = curves.flatMap((curve) => curve.points);
  const [first, last] = bounds(all.map((point) => point[0]));
  let [low, high] = bounds(all.map((point) => point[1]));
  if (low >= 0) low = 0;
  if (high === low) high = low + 1;
  const x = (iteration) => CHART.left + ((iteration - first) / (last - first || 1)) * (CHART.width - CHART.left - CHART.right);
  const y = (value) => CHART.height - CHART.bottom - ((value - low) / (high - low)) * (CHART.height - CHART.top - CHART.bottom);
  const drawing = svg("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": described(title, curves, format) });
  for (const share of [0, 0.5, 1]) {
    const value = low + share * (high - low);
    drawing.append(svg("line", { class: "grid", x1: CHART.left, x2: CHART.width - CHART.right, y1: y(value), y2: y(value) }));
    drawing.append(svg("text", { class: "tick", x: CHART.left - 5, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  for (const iteration of new Set([first, last])) {
    drawing.append(svg("text", { class: "tick", x: x(iteration), y: CHART.height - 8, "text-anchor": iteration === first ? "start" : "end" }, String(iteration)));
  }
  curves.forEach((curve, place) => {
    const points = curve.points.map(([iteration, value]) => `${x(iteration).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    const stroke = CURVES[place % CURVES.length];
    drawing.append(svg("polyline", { points, style: `stroke:${stroke}`, "stroke-dasharray": DASHES[place % DASHES.length] || null }));
    const [iteration, value] = curve.points[curve.points.length - 1];
    drawing.append(svg("circle", { cx: x(iteration), cy: y(value), r: 3, style: `fill:${stroke}` }));
  });
  const key = curves.map((curve, place) => el("li", {},
    svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("line", {
      x1: 0, x2: 26, y1: 4, y2: 4, style: `stroke:${CURVES[place % CURVES.length]}`, "stroke-dasharray": DASHES[place % DASHES.length] || null,
    })), ` ${curve.label} ${format(curve.points[curve.points.length - 1][1])}`));
  const recent = curves.map((curve) => new Map(curve.points));
  const iterations = [...new Set(all.map((point) => point[0]))].sort((one, other) => one - other);
  const rows = () => iterations.map((iteration) => [String(iteration), ...recent.map((points) => format(points.get(iteration)))]);
  const numbers = el("details", {}, el("summary", {}, "numbers"));
  numbers.addEventListener("toggle", () => {
    if (numbers.open && numbers.children.length === 1) numbers.append(table(["iteration", ...curves.map((curve) => curve.label)], rows()));
  });
  return el("figure", { class: "chart" }, el("figcaption", {}, title), drawing, el("ul", { class: "key" }, key), numbers);
}

function described(title, curves, format) {
  const ends = curves.map((curve) => `${curve.label} from ${format(curve.points[0][1])} to ${format(curve.points[curve.points.length - 1][1])}`);
  return `${title}: ${ends.join("; ")}`;
}
