"use strict";
// The address behind `#` says what is shown; everything else follows from it.

let leave = null;

async function route() {
  const [path, query] = location.hash.slice(1).split("?");
  const words = path.split("/").filter(Boolean);
  const parameters = new URLSearchParams(query || "");
  const main = document.getElementById("main");
  if (leave) leave();
  leave = null;
  try {
    const page = await pageOf(words, parameters);
    leave = page.stop || null;
    document.title = `${page.title} · Branchwise`;
    main.replaceChildren(...page.nodes);
    if (page.shown) page.shown();
  } catch (error) {
    if (!(error instanceof MissingAnswer)) throw error;
    main.replaceChildren(el("section", {}, el("h1", {}, "Nothing to show"), el("p", { role: "alert" }, error.message)));
  }
  await trail(words);
}

function pageOf(words, parameters) {
  const [kind, run, what, tree, view] = words;
  if (kind === "run" && what === "tree" && view === "graph") return graphPage(run, tree);
  if (kind === "run" && what === "tree") return treePage(run, tree, parameters);
  if (kind === "run") return runPage(run, parameters);
  if (kind === "compare") return comparePage(run, what);
  return startPage();
}

async function startPage() {
  const runs = await ask("runs");
  if (runs.length === 1) return runPage(0, new URLSearchParams());
  const rows = runs.map((run, place) => [el("a", { href: `#/run/${place}` }, run.name), run.benchmark, run.method, String(run.seed),
    el("span", {}, runs.map((other, index) => (index === place ? null : el("a", { href: `#/compare/${place}/${index}` }, `${other.name} `))))]);
  return { title: "runs", nodes: [el("section", {}, el("h1", {}, "Runs"), table(["run", "benchmark", "method", "seed", "compare with"], rows))] };
}

async function trail(words) {
  const runs = await ask("runs");
  const parts = [el("a", { href: "#/" }, "runs")];
  if (words[0] === "run" && runs[words[1]]) parts.push(el("a", { href: `#/run/${words[1]}` }, runs[words[1]].name));
  if (words[0] === "compare") parts.push(el("span", {}, "comparison"));
  if (words[2] === "tree") parts.push(el("a", { href: `#/run/${words[1]}/tree/${words[3]}` }, `tree ${words[3]}`));
  if (words[4] === "graph") parts.push(el("span", {}, "states"));
  document.getElementById("trail").replaceChildren(...parts.flatMap((part, place) => (place ? [" › ", part] : [part])));
}

addEventListener("hashchange", route);
route();
