"use strict";
// Tokens as they were sampled, coloured by a number of theirs. Chunks that are out of sight are neither laid out nor painted.

const CHUNK = 500;
const TOKEN_COLOURINGS = { logprob: "log-probability", entropy: "entropy", advantage: "advantage" };

function tokenView(tokens) {
  const known = Object.keys(TOKEN_COLOURINGS).filter((name) => tokens[name]);
  const text = el("div", { class: "tokens", tabindex: "0", role: "region", "aria-label": "tokens" });
  const legend = el("span", {});
  const choice = el("select", { "aria-label": "colour tokens by" }, known.map((name) => el("option", { value: name }, TOKEN_COLOURINGS[name])));
  const draw = () => {
    const values = tokens[choice.value];
    const scale = new Scale(choice.value, values.filter((_, place) => tokens.sampled[place]));
    legend.replaceChildren(scale.legend());
    const chunks = [];
    for (let first = 0; first < tokens.text.length; first += CHUNK) chunks.push(tokenChunk(tokens, first, values, scale));
    text.replaceChildren(...chunks);
  };
  choice.addEventListener("change", draw);
  draw();
  const sampled = tokens.sampled.reduce((sum, one) => sum + one, 0);
  return el("div", {}, el("p", { class: "note" }, `${number(tokens.text.length)} tokens, ${number(sampled)} of them sampled; read by ${tokens.reader} `),
    known.length && sampled ? el("p", {}, el("label", {}, "colour by ", choice), " ", legend) : null, text);
}

function tokenChunk(tokens, first, values, scale) {
  const end = Math.min(tokens.text.length, first + CHUNK);
  const chunk = el("span", { class: "chunk" });
  let given = "";
  const flush = () => {
    if (given) chunk.append(el("span", { class: "given" }, given));
    given = "";
  };
  for (let place = first; place < end; place += 1) {
    if (!tokens.sampled[place]) {
      given += tokens.text[place];
      continue;
    }
    flush();
    const token = el("span", { class: "token", title: `log-probability ${number(tokens.logprob[place], 4)}, entropy ${number(tokens.entropy[place], 4)}` }, tokens.text[place]);
    token.style.setProperty("--mark", scale.colour(values[place]));
    chunk.append(token);
  }
  flush();
  return chunk;
}
