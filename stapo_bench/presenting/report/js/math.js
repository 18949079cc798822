// Mathematics in a completion: found by its delimiters, rendered by KaTeX as MathML. What KaTeX refuses stays as it is.

const LONGEST_FORMULA = 4000; // characters; an opening without its end is not looked for farther
const BATCH = 12; // formulas rendered before the browser may draw
const PAIRS = [["\\[", "\\]", true], ["\\(", "\\)", false], ["$$", "$$", true], ["$", "$", false]];
const ENVIRONMENT = /\\begin\{((?:equation|align|gather|eqnarray|multline|alignat)\*?)\}/y;

/** Text as a list of {text} and {math, display, source}; their sources together are the text. */
function formulas(text) {
  const found = [];
  let plain = 0; // start of the plain text not yet listed
  let at = 0;
  const opening = /[$]|\\[[(b]/g;
  while (at < text.length) {
    opening.lastIndex = at;
    const next = opening.exec(text);
    if (next === null) break;
    at = next.index;
    const formula = formulaAt(text, at);
    if (formula === null) {
      at += text.startsWith("$$", at) ? 2 : 1;
      continue;
    }
    if (plain < at) found.push({ text: text.slice(plain, at) });
    found.push({ ...formula, source: text.slice(at, formula.end) });
    plain = at = formula.end;
  }
  if (plain < text.length) found.push({ text: text.slice(plain) });
  return found;
}

function formulaAt(text, at) {
  if (at > 0 && text[at - 1] === "\\") return null; // an escaped dollar
  for (const [open, close, display] of PAIRS) {
    if (!text.startsWith(open, at)) continue;
    const start = at + open.length;
    const within = text.slice(start, start + LONGEST_FORMULA);
    const length = close === "$" ? closingDollar(within) : within.indexOf(close);
    if (length > 0) return { math: within.slice(0, length), display, end: start + length + close.length };
    return null;
  }
  if (text.startsWith("\\boxed{", at) || text.startsWith("\\fbox{", at)) {
    const end = closingBrace(text, at + text.slice(at).indexOf("{"));
    return end < 0 ? null : { math: text.slice(at, end), display: false, end };
  }
  ENVIRONMENT.lastIndex = at;
  const environment = ENVIRONMENT.exec(text);
  if (environment !== null) {
    const close = `\\end{${environment[1]}}`;
    const length = text.slice(at, at + LONGEST_FORMULA).indexOf(close);
    if (length > 0) {
      const end = at + length + close.length;
      return { math: text.slice(at, end), display: true, end };
    }
  }
  return null;
}

/** Where inline mathematics ends: not after a blank, not before a digit ("$5 and $6" is money), not over a paragraph. */
function closingDollar(text) {
  if (/^\s/.test(text)) return -1;
  const paragraph = text.indexOf("\n\n");
  const limit = paragraph < 0 ? text.length : paragraph;
  for (let i = text.indexOf("$"); i >= 0 && i < limit; i = text.indexOf("$", i + 1)) {
    if (text[i - 1] === "\\") continue;
    return /\s/.test(text[i - 1] ?? " ") || /\d/.test(text[i + 1] ?? "") ? -1 : i;
  }
  return -1;
}

function closingBrace(text, open) {
  let depth = 0;
  for (let i = open; i < Math.min(text.length, open + LONGEST_FORMULA); i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "{") depth++;
    else if (text[i] === "}" && --depth === 0) return i + 1;
  }
  return -1;
}

/** A formula as an element; where KaTeX cannot read it, its source. */
function formulaElement({ math, display, source }) {
  const plain = () => make("span", { class: "failed-math" }, ...visible(source));
  if (math.search(INVISIBLE) >= 0) return plain();
  try {
    const options = {
      displayMode: display, output: "mathml", throwOnError: true, trust: false, strict: "ignore", maxExpand: 200, maxSize: 20,
    };
    const tree = katex.__renderToDomTree(math, options);
    withoutStyle(tree);
    const element = tree.toNode();
    if (display) element.classList.add("display");
    return element;
  } catch {
    return plain();
  }
}

/** No colours, which could hide a text on light or dark ground; and no style attributes, which the page's policy forbids. */
function withoutStyle(node) {
  for (const name of ["style", "mathcolor", "mathbackground"]) if (node.attributes) delete node.attributes[name];
  (node.children ?? []).forEach(withoutStyle);
}

/** Fill an element with text and its mathematics, a few formulas at a time; a later call on the element ends this one. */
async function fillWithMath(element, text, highlight = (nodes) => nodes) {
  const turn = (element.turn = (element.turn ?? 0) + 1);
  const waiting = [];
  element.replaceChildren();
  for (const part of formulas(text)) {
    if (part.math === undefined) element.append(...highlight(visible(part.text)));
    else {
      const place = make("span", {}, part.source);
      element.append(place);
      waiting.push([place, part]);
    }
  }
  for (let i = 0; i < waiting.length; i++) {
    if (i > 0 && i % BATCH === 0) {
      await new Promise((resolve) => setTimeout(resolve));
      if (element.turn !== turn) return;
    }
    const [place, part] = waiting[i];
    place.replaceWith(formulaElement(part));
  }
}
