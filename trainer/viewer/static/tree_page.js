"use strict";
// A tree: drawing, outline and one turn's panel, which follow each other.

async function treePage(run, tree, parameters) {
  const answer = await ask(`run/${run}/tree/${tree}`);
  const panel = el("aside", { class: "panel", "aria-label": "turn" }, el("p", { class: "note" }, "choose a turn in the drawing or in the outline"));
  let asked = -1;
  const choose = async (turn) => {
    asked = turn;
    drawing.select(turn);
    outline.select(turn);
    history.replaceState(null, "", `#/run/${run}/tree/${tree}?turn=${turn}`);
    const shown = await turnPanel(run, tree, turn, choose).catch((error) => el("p", { role: "alert" }, error.message));
    if (asked === turn) panel.replaceChildren(shown);
  };
  const drawing = new TreeDrawing(answer, choose);
  const outline = new Outline(answer, drawing, choose);
  const nodes = [treeHead(run, answer), treeTools(answer, drawing, outline), el("div", { class: "treeview" }, outline.element, drawing.frame, panel)];
  const shown = () => {
    drawing.fit(0.9);
    outline.refresh();
    const turn = Number(parameters.get("turn") ?? -1);
    if (turn >= 0 && turn < answer.parent.length) choose(turn);
  };
  return { title: `tree ${tree}`, nodes, shown };
}

function treeHead(run, answer) {
  const facts = [`iteration ${answer.iteration}`, `seed ${answer.seed}`, `${answer.parent.length} turns`, `${answer.solved} of ${answer.rollouts} rollouts solved`];
  const added = answer.parent.length - answer.recorded_turns;
  if (added) facts.push(`${added} turns forked later`);
  return el("section", {}, el("h1", {}, `tree ${answer.id}`), el("p", { class: "facts" }, facts.map((fact) => el("span", { class: "fact" }, fact)),
    el("a", { class: "fact", href: `#/run/${run}/tree/${answer.id}/graph` }, "its states as a graph")));
}

function treeTools(answer, drawing, outline) {
  const legend = el("span", {});
  const told = () => legend.replaceChildren(drawing.scale.legend());
  const colouring = el("select", {}, Object.keys(answer.colours).map((name) => el("option", {}, name)));
  colouring.addEventListener("change", () => {
    drawing.colour(colouring.value);
    told();
  });
  const folding = el("input", { type: "checkbox", checked: drawing.folded });
  folding.addEventListener("change", () => {
    drawing.fold(folding.checked);
    drawing.fit(0.9);
  });
  const found = el("span", { role: "status", class: "note" });
  const search = el("input", { type: "search", placeholder: "search in actions" });
  search.addEventListener("input", () => {
    const count = outline.search(search.value);
    found.textContent = search.value ? `${count} of ${answer.parent.length}` : "";
  });
  const button = (label, act) => el("button", { type: "button", onclick: act }, label);
  told();
  return el("div", { class: "tools" }, el("label", {}, "colour by ", colouring), legend, el("label", {}, folding, " fold chains"),
    el("label", {}, "outline ", search), found, button("fit", () => drawing.fit()), button("zoom in", () => drawing.zoom(1.25)), button("zoom out", () => drawing.zoom(0.8)),
    el("span", { class: "note" }, "✓ solved  ✕ ended otherwise  ▸ forked here  +n folded turns; double-click closes a branch"));
}
