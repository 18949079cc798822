// Which part of the page is open, by the address; the keyboard; light and dark.

const PARTS = ["overview", "figures", "samples", "tokens"];

/** Follow a link of the page's own. */
function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

function partOf(hash) {
  const name = hash.replace(/^#/, "").split("/")[0];
  if (PARTS.includes(name)) return name;
  return readLink(hash) ? "samples" : "overview";
}

/** The figure of a name, or the verdict of a number, which is opened; null where a link names neither. */
function placeIn(part, name) {
  if (part === "figures") return byId(`figure-${name}`);
  const verdict = byId(`verdict-${name}`);
  if (verdict) {
    verdict.open = true;
    const pair = verdict.closest(".pair");
    if (pair) choosePair(pair.dataset.runs.split(" "));
  }
  return verdict;
}

function route() {
  const hash = location.hash;
  const part = partOf(hash);
  const reading = part === "overview" || part === "figures";
  for (const name of PARTS) {
    const section = byId(name);
    if (section) section.hidden = reading ? name === "samples" || name === "tokens" : name !== part;
  }
  for (const link of document.querySelectorAll(".bar nav a")) {
    if (link.getAttribute("href") === `#${part}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (reading) {
    (placeIn(part, hash.split("/")[1]) ?? byId(part))?.scrollIntoView();
  } else if (part === "tokens") {
    const [, batch, response] = hash.split("/").map(Number);
    openTokens(batch || 0, response ?? -1);
  } else {
    const link = readLink(hash);
    if (link) openSample(link);
    else if (browser.problem < 0) openFirst();
  }
}

/** The first sample of the list, without an entry in the browser's history. */
async function openFirst() {
  await refresh();
  const run = data.runs[browser.run];
  const i = browser.found[0];
  if (i === undefined) {
    const words = run.size ? "No sample passes the filters." : "No samples yet.";
    byId("detail").replaceChildren(make("p", { class: "empty" }, words));
    return;
  }
  history.replaceState(null, "", linkTo(run.problem[i], run.sample[i]));
  route();
}

const KEYS = {
  1: () => go("#overview"),
  2: () => byId("figures") && go("#figures"),
  3: () => go("#samples"),
  4: () => byId("tokens") && go("#tokens"),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  n: () => moveToken(1, "s"),
  r: toggleRaw,
  c: copyLink,
  t: toggleTheme,
  "/": () => {
    if (partOf(location.hash) !== "samples") go("#samples");
    byId("search").focus();
    byId("search").select();
  },
  "?": () => byId("help").showModal(),
};

const WHERE = { j: "samples", k: "samples", r: "samples", c: "samples", n: "tokens" }; // where a key means something

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const part = partOf(location.hash);
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape" || (event.key === "Enter" && event.target.id === "search")) {
      event.target.blur();
      if (part === "samples") byId("list").focus();
      event.preventDefault();
    }
    return;
  }
  const scrolls = event.target.closest?.(".text, .wide, summary");
  const arrows = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1, PageDown: 12, PageUp: -12 };
  let act = null;
  if (KEYS[event.key] && (WHERE[event.key] ?? part) === part) act = KEYS[event.key];
  else if (arrows[event.key] && part === "tokens" && shown.response && /Left|Right/.test(event.key)) act = () => moveToken(arrows[event.key]);
  else if (arrows[event.key] && part === "samples" && !scrolls) {
    act = /Left|Right/.test(event.key) ? () => moveSample(arrows[event.key]) : () => moveRow(arrows[event.key]);
  }
  if (act) {
    event.preventDefault();
    act();
  }
}

function toggleTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  stored.set("theme", document.documentElement.dataset.theme);
}

function start() {
  const theme = stored.get("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  browser.raw = stored.get("raw") === "1";
  fillTables();
  fillChoices();
  fillTokens();
  let typing;
  byId("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(refresh, 180);
  });
  for (const id of ["task", "verdict", "order", "only-disputed", "only-truncated", "only-unanswered", "only-flipped"])
    byId(id).addEventListener("change", () => refresh().then(() => list.mark(browser.found.indexOf(browser.at))));
  for (const id of ["run", "beside"])
    byId(id).addEventListener("change", () => {
      const sample = browser.at >= 0 ? data.runs[browser.run].sample[browser.at] : 0;
      if (browser.problem >= 0) go(linkTo(browser.problem, sample, Number(byId("run").value), Number(byId("beside").value)));
    });
  byId("clear").addEventListener("click", clearFilters);
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  byId("theme").addEventListener("click", toggleTheme);
  byId("help-button").addEventListener("click", KEYS["?"]);
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", route);
  route();
}

start();
