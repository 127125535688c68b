"use strict";
// The states of a tree: where rollouts met.

const GRAPH_X = 110;
const GRAPH_Y = 42;

async function graphPage(run, tree) {
  const answer = await ask(`run/${run}/tree/${tree}/graph`);
  const scale = new Scale("value", answer.value);
  const [columns, rows] = [Math.max(0, ...answer.column) + 1, Math.max(0, ...answer.row) + 1];
  const x = (state) => 40 + answer.column[state] * GRAPH_X;
  const y = (state) => 30 + answer.row[state] * GRAPH_Y;
  const most = Math.max(1, ...answer.visits);
  const edges = answer.edges.map(([from, to, count, action]) => {
    const title = svg("title", {}, `${action}${count > 1 ? ` and ${count - 1} more` : ""}`);
    const bend = answer.column[to] <= answer.column[from] ? -30 : 0;
    const d = from === to ? `M${x(from)} ${y(from)}c-18 -26 18 -26 0 0` : `M${x(from)} ${y(from)}C${x(from) + 50} ${y(from) + bend} ${x(to) - 50} ${y(to) + bend} ${x(to)} ${y(to)}`;
    return svg("path", { class: "edge", d, style: `stroke-width:${Math.min(6, 1 + Math.log2(count))}` }, title);
  });
  const nodes = answer.state.map((state, place) => {
    const circle = svg("circle", { cx: x(place), cy: y(place), r: 5 + 9 * Math.sqrt(answer.visits[place] / most) });
    circle.style.fill = scale.colour(answer.value[place]);
    const told = `${answer.visits[place]} turns, mean return ${number(answer.value[place])}: ${state}`;
    const label = svg("text", { class: "label", x: x(place), y: y(place) + 24, "text-anchor": "middle" }, answer.visits[place] ? `${answer.visits[place]}×` : "end");
    const shape = svg("g", {}, svg("title", {}, told), circle, label);
    return answer.turn[place] < 0 ? shape : svg("a", { href: `#/run/${run}/tree/${tree}?turn=${answer.turn[place]}`, "aria-label": told }, shape);
  });
  const drawing = svg("svg", { class: "graph", width: 80 + columns * GRAPH_X, height: 60 + rows * GRAPH_Y }, edges, nodes);
  const most_visited = answer.state.map((state, place) => place).sort((one, other) => answer.visits[other] - answer.visits[one]).slice(0, 100);
  return {
    title: `states of tree ${tree}`,
    nodes: [el("section", {}, el("h1", {}, `states of tree ${tree}`),
      el("p", {}, `${number(answer.states)} states${answer.states > answer.state.length ? `, ${answer.state.length} of them drawn, those with the most turns` : ""}; `,
        "a circle's size says how many turns were taken there, its colour the mean return from there on ", scale.legend()),
      el("div", { class: "scroll graphbox", tabindex: "0", role: "region", "aria-label": "state graph" }, drawing),
      table(["turns", "mean return", "state"], most_visited.map((place) => [String(answer.visits[place]), number(answer.value[place]), answer.state[place]])))],
  };
}
