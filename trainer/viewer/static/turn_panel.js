"use strict";
// One turn with the numbers behind its advantage, its siblings, its tokens, and what to type to go on from it.

async function turnPanel(run, tree, turn, choose) {
  const answer = await ask(`run/${run}/tree/${tree}/turn/${turn}`);
  const runs = await ask("runs");
  const path = runs[run].path;
  const facts = Object.entries(answer.numbers).filter(([, value]) => value !== null).map(([name, value]) => [name, number(value, name === "advantage" ? 6 : 4)]);
  const state = [["ended", answer.success ? "solved" : answer.end], ["came from", answer.origin], ["refused by the environment", answer.valid ? "" : "yes"]].filter(([, value]) => value);
  return el("div", {},
    el("h2", { tabindex: "-1" }, `turn ${answer.turn}`, el("small", {}, ` at depth ${answer.depth}`)),
    el("p", { class: "action" }, answer.action || "(nothing)"),
    el("dl", {}, [...state, ...facts].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("h3", {}, "observation"), el("pre", { tabindex: "0" }, answer.observation),
    siblings(answer, choose), sameState(answer, choose),
    el("h3", {}, "tokens"), tokenView(answer.tokens), wholeRollout(run, tree, turn),
    el("h3", {}, "states"), el("pre", { class: "state", tabindex: "0" }, `${answer.state}\n→ ${answer.next_state}`),
    el("h3", {}, "go on from here"),
    copyable(`branchwise show ${quoted(path)} ${tree}:${turn} --tokens`), copyable(`branchwise replay ${quoted(path)} ${tree} --node ${turn}`),
    copyable(`branchwise fork ${quoted(path)} ${tree}:${turn} --policy expert`), forkForm(run, tree, turn));
}

const quoted = (path) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

function siblings(answer, choose) {
  if (!answer.siblings.length) return null;
  const rows = [{ turn: answer.turn, action: answer.action, origin: answer.origin, advantage: answer.numbers.advantage, value: answer.numbers["mean return from here (Q)"] }, ...answer.siblings];
  return el("div", {}, el("h3", {}, "siblings side by side"), table(["turn", "action", "advantage", "mean return", "came from"],
    rows.map((row) => [el("button", { type: "button", class: "link", onclick: () => choose(row.turn) }, String(row.turn)), row.action, number(row.advantage), number(row.value), row.origin])));
}

function sameState(answer, choose) {
  if (!answer.same_state_count) return null;
  return el("div", {}, el("h3", {}, "other turns in this state"), el("p", {},
    answer.same_state.map((turn) => el("button", { type: "button", class: "link", onclick: () => choose(turn) }, String(turn))),
    answer.same_state_count > answer.same_state.length ? ` and ${answer.same_state_count - answer.same_state.length} more` : null));
}

function wholeRollout(run, tree, turn) {
  if (EXPORTED) return null;
  const box = el("div", {});
  return el("div", {}, el("button", { type: "button", onclick: async () => {
    const answer = await ask(`run/${run}/tree/${tree}/rollout/${turn}`);
    box.replaceChildren(el("h3", {}, `tokens of turns ${answer.path[0]} to ${turn}`), tokenView(answer.tokens));
  } }, "all tokens up to here"), box);
}

function forkForm(run, tree, turn) {
  if (document.body.dataset.fork !== "allowed") return null;
  const output = el("pre", { role: "status" });
  const form = el("form", { class: "filters" },
    el("label", {}, "policy", el("select", { name: "policy" }, ["expert", "random", "checkpoint"].map((name) => el("option", {}, name)))),
    el("label", {}, "forks", el("input", { name: "n", type: "number", min: "1", max: "16", value: "1" })), el("button", {}, "fork"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    output.textContent = "the way there is executed and verified, then the policy goes on …";
    try {
      const { policy, n } = Object.fromEntries(new FormData(form));
      const answer = await post("fork", { run: Number(run), tree: Number(tree), turn: Number(turn), policy, n: Number(n) });
      output.textContent = answer.text;
      output.append(el("br"), el("button", { type: "button", onclick: route }, "show them in the tree"));
    } catch (error) {
      output.textContent = error.message;
    }
  });
  return el("div", {}, form, output);
}
