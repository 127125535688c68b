"use strict";
// A run: its curves, live while it trains, its flags, and the list of its trees.

const PAGE_ROWS = 200;
const ROW_PX = 28;
const POLL_MS = 3000;
const TREE_COLUMNS = ["tree", "iteration", "seed", "turns", "depth", "solved", "branches", "forks", "return", "advantage"];

const range = (low, high) => (low === null || high === null ? "–" : low === high ? number(low, 2) : `${number(low, 2)} … ${number(high, 2)}`);

function treeCells(tree) {
  return [tree.id, tree.iteration, tree.seed, tree.turns, tree.depth, `${tree.solved}/${tree.counted}`, tree.branches, tree.forks,
    range(tree.return_min, tree.return_max), range(tree.advantage_min, tree.advantage_max)].map(String);
}

async function runPage(run, parameters) {
  const answer = await ask(`run/${run}`);
  const records = answer.records;
  const figures = el("div", {});
  const draw = () => figures.replaceChildren(runHead(run, answer), runCharts(records), runFlags(answer.flags));
  draw();
  const stop = EXPORTED ? null : poll(run, records, answer, draw);
  return { title: answer.name, stop, nodes: [figures, await treeList(run, answer, parameters)] };
}

function runHead(run, answer) {
  const last = answer.records.length ? answer.records[answer.records.length - 1].iteration : 0;
  const state = answer.running ? "training" : last >= answer.iterations ? "finished" : "not running";
  const facts = [answer.benchmark, answer.method, `seed ${answer.seed}`, `iteration ${last} of ${answer.iterations}`,
    `${number(answer.trees)} trees`, state];
  const result = answer.result && answer.result.success.sampled;
  return el("section", {},
    el("h1", {}, answer.name),
    el("p", { class: "facts" }, facts.map((fact) => el("span", { class: "fact" }, fact))),
    result ? el("p", { class: "outcome" }, "held-out success ", el("b", {}, percent(result.before.rate)), " before, ",
      el("b", {}, percent(result.after.rate)), ` after [${percent(result.after.low)}, ${percent(result.after.high)}]`) : null);
}

function runCharts(records) {
  const types = [...new Set(records.flatMap((record) => Object.keys(record).filter((name) => name.startsWith("success_by_type/"))))].sort();
  const phases = [...new Set(records.flatMap((record) => Object.keys(record).filter((name) => name.startsWith("phase_seconds/"))))].sort();
  const after = (name) => name.slice(name.indexOf("/") + 1);
  const charts = [
    chart("success", records, [["train_success", "in training"], ["eval_sampled", "held-out, sampled"], ["eval_greedy", "held-out, greedy"]], percent),
    chart("success by task type", records, types.map((name) => [name, after(name)]), percent),
    chart("entropy, nats a token", records, [["entropy", "entropy"]]),
    chart("states merged, actions refused", records, [["merge_rate", "merged"], ["invalid_share", "refused"], ["branch_gain", "branch gain"]], percent),
    chart("advantages", records, [["advantage_std", "standard deviation"], ["advantage_max", "largest"], ["advantage_min", "least"]]),
    chart("gradient norm", records, [["gradient_norm", "norm"]]),
    chart("tokens an iteration", records, [["tokens", "generated"], ["prefilled_tokens", "prefilled"], ["trained_tokens", "trained"]]),
    chart("seconds by phase", records, phases.map((name) => [name, after(name)]), (value) => number(value, 1)),
  ].filter(Boolean);
  return el("section", { "aria-label": "curves" },
    charts.length ? el("div", { class: "charts" }, charts) : el("p", { class: "empty" }, "no iteration has ended yet"));
}

function runFlags(flags) {
  if (!flags.length) return el("section", {}, el("h2", {}, "Health"), el("p", {}, "no flag"));
  return el("section", {}, el("h2", {}, "Health"), el("ul", { class: "flags" }, flags.map((flag) => el("li", { class: flag.present ? "present" : "past" },
    el("b", {}, flag.name.replaceAll("_", " ")), flag.present ? " (now) " : " (past) ", flag.seen,
    el("br"), `iterations ${flag.first} to ${flag.last}; look at `, el("code", {}, flag.module), "; try ", flag.try))));
}

function poll(run, records, answer, draw) {
  const timer = setInterval(async () => {
    const last = records.length ? records[records.length - 1].iteration : 0;
    try {
      const news = await ask(`run/${run}`, { after: String(last) });
      if (!news.records.length && news.running === answer.running && news.trees === answer.trees) return;
      records.push(...news.records);
      Object.assign(answer, news, { records });
      draw();
    } catch {
      // The server has ended; the page keeps what it has.
    }
  }, POLL_MS);
  return () => clearInterval(timer);
}

async function treeList(run, answer, parameters) {
  const status = el("p", { role: "status", class: "count" });
  const rows = el("div", { class: "rows" });
  const heading = el("div", { class: "treerow heading", "aria-hidden": "true" }, TREE_COLUMNS.map((name) => el("span", {}, name)));
  const scroller = el("div", { class: "treelist", tabindex: "0", role: "region", "aria-label": "trees" }, heading, rows);
  const field = (name, label, placeholder) => el("label", {}, label, el("input", { name, placeholder, value: parameters.get(name) || "", autocomplete: "off" }));
  const form = el("form", { class: "filters" },
    field("where", "where", "mixed and depth > 20"), field("text", "text of turns", "microwave 1"), field("sort", "sort by", "advantage_range"),
    el("button", {}, "find"));
  const pages = new Map();
  let query = {};
  let count = 0;

  async function page(place) {
    if (pages.has(place)) return;
    pages.set(place, null);
    const found = await ask(`run/${run}/trees`, { ...query, offset: String(place * PAGE_ROWS) });
    count = found.count;
    pages.set(place, found.trees);
  }

  function show() {
    rows.style.height = `${count * ROW_PX}px`;
    const first = Math.floor(scroller.scrollTop / ROW_PX);
    const end = Math.min(count, first + Math.ceil(scroller.clientHeight / ROW_PX) + 2);
    const shown = [];
    for (let place = first; place < end; place += 1) {
      const held = pages.get(Math.floor(place / PAGE_ROWS));
      if (held === undefined) page(Math.floor(place / PAGE_ROWS)).then(show, fail);
      const tree = held && held[place % PAGE_ROWS];
      const link = el("a", { class: "treerow", href: tree ? `#/run/${run}/tree/${tree.id}` : null },
        tree ? treeCells(tree).map((cell) => el("span", {}, cell)) : el("span", {}, "…"));
      link.style.top = `${place * ROW_PX}px`;
      shown.push(link);
    }
    rows.replaceChildren(...shown);
  }

  function fail(error) {
    status.textContent = error.message;
    status.classList.add("error");
  }

  async function find() {
    query = Object.fromEntries(new FormData(form));
    pages.clear();
    status.classList.remove("error");
    scroller.scrollTop = 0;
    try {
      await page(0);
      status.textContent = `${number(count)} of ${number(answer.trees)} trees${EXPORTED ? ", those that were exported" : ""}`;
    } catch (error) {
      count = 0;
      fail(error);
    }
    show();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = new URLSearchParams(Object.entries(Object.fromEntries(new FormData(form))).filter(([, value]) => value)).toString();
    history.replaceState(null, "", `#/run/${run}${words ? `?${words}` : ""}`);
    find();
  });
  scroller.addEventListener("scroll", () => requestAnimationFrame(show));
  requestAnimationFrame(find);
  return el("section", {}, el("h2", {}, "Trees"), EXPORTED ? null : form, status, scroller);
}
