"use strict";
// Two runs by the tasks that both met.

async function comparePage(first, second) {
  const [runs, answer] = [await ask("runs"), await ask(`compare/${first}/${second}`)];
  const [one, other] = [runs[first].name, runs[second].name];
  const [before, after] = answer.means;
  const [low, high] = answer.interval.map((end) => `${(100 * end).toFixed(1)}`);
  const links = (run, trees) => trees.slice(0, 5).map((tree) => el("a", { href: `#/run/${run}/tree/${tree}` }, `${tree} `));
  const rows = answer.tasks.map((task) => [String(task.seed), percent(task.shares[0]), percent(task.shares[1]),
    `${(100 * (task.shares[1] - task.shares[0])).toFixed(0)}`, el("span", {}, links(first, task.trees[0])), el("span", {}, links(second, task.trees[1]))]);
  return {
    title: `${one} and ${other}`,
    nodes: [el("section", {}, el("h1", {}, `${one} and ${other}`),
      el("p", { class: "outcome" }, `${number(answer.count)} tasks in common: ${one} solves `, el("b", {}, percent(before)), `, ${other} `,
        el("b", {}, percent(after)), `, difference ${(100 * (after - before)).toFixed(1)} [${low}, ${high}] points (95 %, paired by task)`),
      answer.count > answer.tasks.length ? el("p", {}, `${answer.tasks.length} of ${answer.count} tasks, those that differ most`) : null,
      table(["seed", one, other, "difference", `trees of ${one}`, `trees of ${other}`], rows))],
  };
}
