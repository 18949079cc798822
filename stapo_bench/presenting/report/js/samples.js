// The samples: columns from the index, filters over them, and the list of those that pass.

const MARKS = { C: "✓", I: "✗", N: "∅", E: "!", "-": "·" };
const WORDS = { C: "correct", I: "incorrect", N: "no answer", E: "grader error", "-": "not graded" };
const data = island("index");

/** What filters ask of a run, worked out once. */
function prepare(run) {
  run.size = run.sample.length;
  const main = run.graders[0];
  run.outcome = main ? main.outcome : "-".repeat(run.size);
  run.first = new Map(); // problem -> number of its first sample; samples of a problem stand together
  run.right = new Float64Array(data.problems.length); // share of the decided samples, NaN without any
  const decided = new Uint32Array(data.problems.length);
  for (let i = 0; i < run.size; i++) {
    const problem = run.problem[i];
    if (!run.first.has(problem)) run.first.set(problem, i);
    if (run.finish[i] !== "e" && "CIN".includes(run.outcome[i])) {
      decided[problem]++;
      run.right[problem] += run.outcome[i] === "C";
    }
  }
  run.right.forEach((count, problem) => (run.right[problem] = count / decided[problem]));
  run.disputed = new Uint8Array(run.size);
  if (run.graders.length > 1) {
    for (let i = 0; i < run.size; i++) {
      const said = new Set(run.graders.map((grader) => grader.outcome[i]));
      run.disputed[i] = said.has("C") && (said.has("I") || said.has("N"));
    }
  }
}
data.runs.forEach(prepare);

/** The samples of one problem: their numbers in the run. */
function samplesOf(run, problem) {
  const first = run.first.get(problem);
  if (first === undefined) return [];
  let end = first;
  while (end < run.size && run.problem[end] === problem) end++;
  return Array.from({ length: end - first }, (_, i) => first + i);
}

/** Number of the chunk that holds a sample's text: texts stand in the order in which they were stored. */
function chunkOf(run, i) {
  let low = 0;
  for (let high = run.starts.length; high - low > 1; ) {
    const middle = (low + high) >> 1;
    if (run.starts[middle] <= run.place[i]) low = middle;
    else high = middle;
  }
  return low;
}

/** [completion, seed, sum of log-probs] of a sample. */
async function textOf(number, i) {
  const run = data.runs[number];
  const chunk = chunkOf(run, i);
  return (await unpack(`text-${number}-${chunk}`))[run.place[i] - run.starts[chunk]];
}

/** A problem that run a solves more often than not and run b does not, or the other way round. */
const flips = (a, b, problem) => (a.right[problem] - 0.5) * (b.right[problem] - 0.5) < 0;

/** Numbers of the samples that pass; ``wanted`` as readFilters gives it. */
function filtered(run, beside, wanted) {
  const found = [];
  for (let i = 0; i < run.size; i++) {
    const problem = run.problem[i];
    if (wanted.task >= 0 && data.problems[problem][0] !== wanted.task) continue;
    if (wanted.verdict && run.outcome[i] !== wanted.verdict) continue;
    if (wanted.disputed && !run.disputed[i]) continue;
    if (wanted.truncated && run.finish[i] !== "l") continue;
    if (wanted.unanswered && run.outcome[i] !== "N") continue;
    if (wanted.flipped && !(beside && flips(run, beside, problem))) continue;
    found.push(i);
  }
  return found;
}

function ordered(run, beside, found, order) {
  const change = (i) => Math.abs(run.right[run.problem[i]] - beside.right[run.problem[i]]) || 0;
  if (order === "long") found.sort((i, j) => run.tokens[j] - run.tokens[i]);
  if (order === "short") found.sort((i, j) => run.tokens[i] - run.tokens[j]);
  if (order === "change" && beside) found.sort((i, j) => change(j) - change(i) || i - j);
  return found;
}

const browser = { run: 0, beside: -1, found: [], at: -1, problem: -1, raw: false, turn: 0 };

function readFilters() {
  return {
    task: byId("task").value === "" ? -1 : Number(byId("task").value),
    verdict: byId("verdict").value,
    disputed: byId("only-disputed").checked,
    truncated: byId("only-truncated").checked,
    unanswered: byId("only-unanswered").checked,
    flipped: byId("only-flipped").checked,
    order: byId("order").value,
    words: byId("search").value.trim(),
  };
}

function drawRow(number) {
  const run = data.runs[browser.run];
  const i = browser.found[number];
  const [task, id] = data.problems[run.problem[i]];
  const outcome = run.outcome[i];
  const answer = run.graders.length ? data.answers[run.graders[0].answer[i]] : null;
  const tags = [run.finish[i] === "l" && "cut", run.finish[i] === "e" && "failed", run.disputed[i] && "disputed"];
  const title = data.tasks[task].title;
  return make(
    "div",
    { "aria-label": `${title}, ${id}, sample ${run.sample[i]}, ${WORDS[outcome]}` },
    make("span", { class: `mark ${outcome === "-" ? "none" : outcome}` }, MARKS[outcome]),
    make("span", { class: "where" }, `${id} / ${run.sample[i]}`),
    make("span", { class: "size" }, String(run.tokens[i] ?? "–")),
    make("span", { class: "answer" }, ...visible(answer === null ? "—" : answer.slice(0, 80))),
    make("span", { class: "tags" }, tags.filter(Boolean).join(" · ")),
  );
}

const list = new VirtualList(byId("list"), drawRow, (number) => chooseRow(number));

/** Filter, order and search anew; the sample in sight stays, wherever it now stands in the list. */
async function refresh() {
  const turn = ++browser.turn;
  const run = data.runs[browser.run];
  const beside = data.runs[browser.beside];
  const wanted = readFilters();
  stored.set("filters", JSON.stringify(wanted));
  tick(run, beside);
  const passed = ordered(run, beside, filtered(run, beside, wanted), wanted.order);
  if (!wanted.words) return present(passed, `${passed.length.toLocaleString("en")} of ${run.size.toLocaleString("en")} samples`);
  return search(browser.run, passed, wanted.words, (seen, share) => {
    if (browser.turn !== turn) return false;
    const hits = passed.filter((i) => seen[i] === HIT);
    const far = share < 1 ? ` (${Math.floor(100 * share)} % searched)` : "";
    present(hits, `${hits.length.toLocaleString("en")} of ${run.size.toLocaleString("en")} samples${far}`);
    return true;
  }).catch((error) => {
    if (browser.turn !== turn) return;
    byId("status").textContent += `: the search broke off (${error.message}); change its words to search again`;
  });
}

function present(found, words) {
  const current = browser.at;
  browser.found = found;
  list.show(found.length, found.indexOf(current));
  byId("status").textContent = words;
}

/** How many samples each tick box would leave, and which make sense here. */
function tick(run, beside) {
  const count = (id, number, possible = true) => {
    const box = byId(id);
    box.disabled = !possible;
    if (!possible) box.checked = false;
    box.parentElement.querySelector("output").textContent = possible ? number.toLocaleString("en") : "";
  };
  const among = (text, letter) => text.split(letter).length - 1;
  count("only-disputed", run.disputed.reduce((sum, one) => sum + one, 0), run.graders.length > 1);
  count("only-truncated", among(run.finish, "l"));
  count("only-unanswered", among(run.outcome, "N"));
  count("only-flipped", beside ? run.problem.filter((problem) => flips(run, beside, problem)).length : 0, Boolean(beside));
}

/** Open the sample of a row: by its link, so that the browser's own back and forward work. */
function chooseRow(number) {
  if (number < 0 || number >= browser.found.length) return;
  const run = data.runs[browser.run];
  const i = browser.found[number];
  go(linkTo(run.problem[i], run.sample[i]));
}

function moveRow(step) {
  const now = browser.found.indexOf(browser.at);
  chooseRow(now < 0 ? 0 : Math.min(browser.found.length - 1, Math.max(0, now + step)));
}

function fillChoices() {
  const option = (text, chosen) => make("option", { value: chosen }, text);
  byId("run").replaceChildren(...data.runs.map((run, i) => option(run.name, i)));
  byId("beside").replaceChildren(option("no other run", -1), ...data.runs.map((run, i) => option(run.name, i)));
  byId("task").replaceChildren(option("all", ""), ...data.tasks.map((task, i) => option(task.title, i)));
  const before = JSON.parse(stored.get("filters") ?? "null");
  if (before) {
    byId("task").value = data.tasks[before.task] ? before.task : "";
    byId("verdict").value = before.verdict;
    byId("order").value = before.order;
    byId("search").value = before.words;
    for (const name of ["disputed", "truncated", "unanswered", "flipped"]) byId(`only-${name}`).checked = before[name];
  }
}

function clearFilters() {
  for (const id of ["task", "verdict", "order", "search"]) byId(id).value = "";
  for (const box of document.querySelectorAll(".ticks input")) box.checked = false;
  refresh();
}
