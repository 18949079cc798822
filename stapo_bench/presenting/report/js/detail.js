// One sample: its problem, what each grader said, its text; beside it, if asked for, another run on the same problem.

/** ``#task/problem/sample``, and the runs where they are not the first alone. */
function linkTo(problem, sample, run = browser.run, beside = browser.beside) {
  const [task, id] = data.problems[problem];
  const names = [run, ...(beside >= 0 ? [beside] : [])].map((i) => encodeURIComponent(data.runs[i].name));
  const runs = run === 0 && beside < 0 ? "" : `@${names.join(",")}`;
  return `#${[data.tasks[task].name, id, sample].map(encodeURIComponent).join("/")}${runs}`;
}

/** The inverse: {problem, sample, run, beside}; null where the link names nothing that is here. */
function readLink(hash) {
  const [path, names] = hash.replace(/^#/, "").split("@");
  const [task, id, sample] = path.split("/").map(decode);
  const number = data.tasks.findIndex((one) => one.name === task);
  if (number < 0 || id === undefined) return null;
  const members = data.problems.flatMap(([of], problem) => (of === number ? [problem] : []));
  const problem = members.find((one) => data.problems[one][1] === id) ?? members[Number(id) - 1];
  if (problem === undefined) return null;
  const runs = names === undefined ? [] : names.split(",").map((name) => data.runs.findIndex((run) => run.name === decode(name)));
  return { problem, sample: Number(sample ?? 0), run: Math.max(0, runs[0] ?? 0), beside: runs[1] ?? -1 };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % in a hand-written link
  }
}

/** Open what a link names. */
function openSample({ problem, sample, run, beside }) {
  const changed = browser.run !== run || browser.beside !== beside || browser.problem < 0;
  Object.assign(browser, { run, beside, problem });
  byId("run").value = run;
  byId("beside").value = beside;
  const numbers = samplesOf(data.runs[run], problem);
  browser.at = numbers.find((i) => data.runs[run].sample[i] === sample) ?? numbers[0] ?? -1;
  if (changed) refresh();
  list.mark(browser.found.indexOf(browser.at));
  return drawDetail(sample);
}

async function drawDetail(sample) {
  const turn = (drawDetail.turn = (drawDetail.turn ?? 0) + 1);
  const { problem, run, beside } = browser;
  const questions = await unpack("questions");
  const shown = beside >= 0 ? [run, beside] : [run];
  const parts = await Promise.all(shown.map((number) => drawRun(number, problem, sample, shown.length > 1)));
  if (drawDetail.turn !== turn) return;
  const [task, id] = data.problems[problem];
  const members = data.problems.flatMap(([of], other) => (of === task ? [other] : []));
  const head = make(
    "div",
    { class: "detail-head" },
    make("h2", {}, `${data.tasks[task].title} · `, make("bdi", {}, id)),
    make("span", { class: "quiet" }, `${members.indexOf(problem) + 1} of ${members.length} problems`),
    make("span", { class: "grow" }),
    make("button", { type: "button", id: "raw", "aria-pressed": String(browser.raw), onclick: toggleRaw }, "Raw text"),
    make("button", { type: "button", onclick: copyLink }, "Copy link"),
  );
  byId("detail").replaceChildren(head, ...problemParts(questions[problem]), make("div", { class: "columns" }, ...parts));
  byId("detail").scrollTop = 0;
}

function problemParts(known) {
  if (!known) return [make("p", { class: "empty" }, data.note || "The question is not at hand.")];
  const [question, gold, corrected] = known;
  const place = make("div", { class: "question" });
  fill(place, question);
  const parts = ["Gold answer ", value(gold), ...(corrected === null ? [] : [", corrected to ", value(corrected)])];
  return [place, make("p", { class: "gold" }, ...parts)];
}

/** One run's column: strip of all its samples on the problem, verdicts, text. */
async function drawRun(number, problem, sample, named) {
  const run = data.runs[number];
  const numbers = samplesOf(run, problem);
  const right = run.right[problem];
  const share = Number.isNaN(right) ? "" : ` · ${(100 * right).toFixed(0)} % right`;
  const head = [
    make("h3", {}, make("bdi", {}, run.name), make("span", { class: "quiet" }, ` ${run.method} · ${run.sampling}${share}`)),
  ];
  if (!numbers.length) return make("section", {}, ...head, make("p", { class: "empty" }, "No samples of this problem."));
  const i = numbers.find((one) => run.sample[one] === sample) ?? numbers[0];
  const [text, seed, logProb] = await textOf(number, i);
  const place = make("div", { class: "text", tabindex: "0", role: "region", "aria-label": `Completion of ${run.name}` });
  fill(place, text);
  const ended = { s: "ended by itself", l: `cut off at the limit of ${run.limit}`, e: "given up by the engine", u: "not known how it ended" }[run.finish[i]];
  const facts = [`sample ${run.sample[i]}`, `${run.tokens[i] ?? "unknown number of"} tokens, ${ended}`, `seed ${seed}`];
  if (logProb !== null) facts.push(`log-probability ${logProb.toFixed(2)} nats`);
  return make(
    "section",
    { "aria-label": named ? `Run ${run.name}` : null },
    ...head,
    strip(run, numbers, i, problem),
    verdictTable(run, i),
    make("p", { class: "quiet" }, facts.join(" · ")),
    place,
  );
}

function strip(run, numbers, current, problem) {
  const buttons = numbers.map((i) => {
    const words = `sample ${run.sample[i]}, ${WORDS[run.outcome[i]]}${run.finish[i] === "l" ? ", truncated" : ""}`;
    return make(
      "button",
      {
        type: "button",
        class: run.outcome[i],
        title: words,
        "aria-label": words,
        "aria-current": i === current ? "true" : null,
        onclick: () => go(linkTo(problem, run.sample[i])),
      },
      MARKS[run.outcome[i]],
    );
  });
  return make("div", { class: "strip", role: "group", "aria-label": "Samples of this problem" }, ...buttons);
}

function verdictTable(run, i) {
  if (!run.graders.length) return make("p", { class: "empty" }, "Not graded yet.");
  const rows = run.graders.map((grader) => {
    const outcome = grader.outcome[i];
    const answer = data.answers[grader.answer[i]];
    return make(
      "tr",
      {},
      make("td", { title: grader.version }, grader.name),
      make("td", { class: outcome }, `${MARKS[outcome]} ${WORDS[outcome]}`),
      make("td", {}, answer === null ? "—" : value(answer)),
      make("td", {}, make("bdi", {}, ...visible(data.details[grader.detail[i]]))),
    );
  });
  const heads = ["Grader", "Verdict", "Extracted answer", "Reason"].map((text) => make("th", { scope: "col" }, text));
  return make("table", { class: "verdicts" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
}

/** Text with its mathematics, or as it is; the words that were searched for are marked. */
function fill(place, text) {
  place.classList.toggle("raw", browser.raw);
  if (browser.raw) {
    place.turn = (place.turn ?? 0) + 1; // ends what fillWithMath may still be doing here
    place.replaceChildren(...highlighted(visible(text)));
  } else fillWithMath(place, text, highlighted);
}

function highlighted(nodes) {
  const words = byId("search").value.trim().toLowerCase();
  if (!words) return nodes;
  return nodes.flatMap((node) => {
    if (typeof node !== "string") return [node];
    const parts = [];
    const lower = node.toLowerCase();
    let end = 0;
    // Where lower case is longer or shorter than the text itself (İ), places do not agree: nothing is marked.
    for (let at = lower.length === node.length ? lower.indexOf(words) : -1; at >= 0; at = lower.indexOf(words, end)) {
      parts.push(node.slice(end, at), make("mark", {}, node.slice(at, at + words.length)));
      end = at + words.length;
    }
    return [...parts, node.slice(end)];
  });
}

function toggleRaw() {
  browser.raw = !browser.raw;
  stored.set("raw", browser.raw ? "1" : "");
  if (browser.problem >= 0) openSample(readLink(location.hash) ?? browser);
}

function copyLink() {
  copy(location.href, "Link");
}

/** The samples of the problem before and after this one. */
function moveSample(step) {
  const run = data.runs[browser.run];
  const numbers = samplesOf(run, browser.problem);
  const next = numbers[numbers.indexOf(browser.at) + step];
  if (next !== undefined) go(linkTo(browser.problem, run.sample[next]));
}
