// Responses of dumped mini-batches, token by token.

const batches = island("tokens");
const SHADES = 6;
const EDGES = { prob: [0.5, 0.2, 0.05, 0.01, 0.001], entropy: [0.1, 0.5, 1, 1.5, 2] };
const shown = { response: null, at: 0 };

/** Number of the shade: the less likely, or the more uncertain, the darker. */
function shade(kind, number) {
  return EDGES[kind].filter((edge) => (kind === "prob" ? number < edge : number >= edge)).length;
}

function fillTokens() {
  if (!batches.length) return;
  byId("dump").replaceChildren(...batches.map((batch, i) => make("option", { value: i }, batch.name)));
  byId("dump").addEventListener("change", () => go(`#tokens/${byId("dump").value}`));
  byId("shade").addEventListener("change", drawTokens);
  const place = byId("token-text");
  place.addEventListener("mouseover", (event) => tokenFacts(event.target));
  place.addEventListener("focusin", (event) => tokenFacts(event.target));
}

/** Open ``#tokens/<mini-batch>/<response>``; without a response, the first in which something was silenced. */
async function openTokens(batch, response) {
  if (!batches.length) return;
  const number = Math.min(batches.length - 1, Math.max(0, batch));
  const { responses, objective, thresholds } = batches[number];
  const first = Math.max(0, responses.findIndex((line) => line.silenced > 0));
  const chosen = responses[response] ? response : first;
  byId("dump").value = number;
  const told = Object.entries(thresholds).map(([name, edge]) => `${name} = ${edge === null ? "undefined" : edge.toPrecision(4)}`);
  const silenced = responses.reduce((sum, line) => sum + line.silenced, 0);
  const candidates = responses.reduce((sum, line) => sum + line.candidates, 0);
  byId("token-about").textContent = [`Mask of ${objective}`, ...told, `${silenced} of ${candidates} candidates silenced in ${responses.length} responses`].join(" · ");
  byId("responses").replaceChildren(...responses.map((line, i) => responseLink(line, number, i, i === chosen)));
  if (!responses[chosen]) return;
  byId("responses").children[chosen].scrollIntoView({ block: "nearest" });
  shown.response = await unpack(responses[chosen].chunk);
  shown.at = Math.max(0, shown.response.mark.indexOf("s"));
  drawTokens();
}

function responseLink(line, batch, i, isChosen) {
  const sign = line.advantage > 0 ? "+" : line.advantage < 0 ? "−" : "";
  const words = `${line.tokens} tokens, ${line.silenced} of ${line.candidates} candidates silenced`;
  return make(
    "a",
    { href: `#tokens/${batch}/${i}`, title: words, "aria-current": isChosen ? "true" : null },
    make("span", { class: "num" }, `${sign}${Math.abs(line.advantage).toFixed(2)}`),
    make("span", { class: "quiet" }, `${line.tokens} tokens`),
    make("span", {}, line.silenced ? `⊘ ${line.silenced}` : line.candidates ? "candidate" : ""),
  );
}

function drawTokens() {
  const { response } = shown;
  const kind = byId("shade").value;
  byId("token-prompt").replaceChildren(...visible(response.prompt));
  const tokens = response.text.map((text, t) => {
    const mark = { s: " silenced", c: " candidate", ".": "" }[response.mark[t]];
    const words = { s: ", silenced", c: ", candidate, kept", ".": "" }[response.mark[t]];
    const label = `${text.trim() || "blank"}, probability ${short(response.prob[t])}, entropy ${short(response.entropy[t])}${words}`;
    const attributes = { class: `token s${shade(kind, response[kind][t])}${mark}`, "data-token": t, "aria-label": label };
    return make("span", { ...attributes, role: "img", tabindex: t === shown.at ? "0" : "-1" }, ...visible(text));
  });
  byId("token-text").replaceChildren(...tokens);
  drawLegend(kind);
  tokenFacts(tokens[shown.at]);
}

function drawLegend(kind) {
  const boxes = Array.from({ length: SHADES }, (_, i) => make("i", { class: `s${i}` }));
  const [low, high] = kind === "prob" ? ["likely", "p < 0.001"] : ["sure", "2 nats"];
  const silenced = make("span", { class: "token silenced" }, "silenced");
  const candidate = make("span", { class: "token candidate" }, "candidate");
  byId("legend").replaceChildren(low, ...boxes, high, "\u2003", silenced, "\u2003", candidate);
}

const short = (number) => (number !== 0 && number < 1e-3 ? number.toExponential(2) : number.toPrecision(3));

function tokenFacts(target) {
  const token = target?.closest?.(".token[data-token]");
  if (!token) return;
  const t = Number(token.dataset.token);
  const { response } = shown;
  const rows = [
    ["Probability", short(response.prob[t])],
    ["Entropy", `${short(response.entropy[t])} nats`],
    ["Advantage", response.advantage.toFixed(3)],
    ["Mask", { s: "silenced", c: "candidate, kept", ".": "kept" }[response.mark[t]]],
  ].map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, text)));
  const likely = response.top[t].map(([text, p]) => {
    const taken = text === response.text[t];
    const name = make("bdi", { class: "value" }, ...visible(JSON.stringify(text)));
    return make("tr", { class: taken ? "taken" : "" }, make("td", {}, name, taken ? " (taken)" : ""), make("td", {}, short(p)));
  });
  byId("token-facts").replaceChildren(
    make("h3", {}, make("bdi", {}, ...visible(JSON.stringify(response.text[t])))),
    make("table", {}, ...rows),
    make("p", { class: "quiet" }, "Most likely here"),
    make("table", {}, ...likely),
  );
}

/** Give the focus to another token: by steps, or the next that is silenced. */
function moveToken(step, mark = null) {
  const tokens = [...byId("token-text").children];
  let next = shown.at + step;
  while (mark !== null && next < tokens.length && shown.response.mark[next] !== mark) next += step;
  if (!tokens[next]) return;
  tokens[shown.at].tabIndex = -1;
  shown.at = next;
  tokens[next].tabIndex = 0;
  tokens[next].focus();
}
