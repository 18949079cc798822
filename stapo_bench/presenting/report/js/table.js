// The overview: two runs to choose, the main table sorted by a column, its intervals shown or not. What can be taken along: tables, verdicts, figures, links.

const copies = island("copies");

function sortBy(head) {
  const table = head.closest("table");
  const column = [...head.parentElement.children].indexOf(head);
  const upwards = head.getAttribute("aria-sort") === "descending" || !head.classList.contains("num") && head.getAttribute("aria-sort") === "none";
  const key = (row) => row.children[column].dataset.order ?? row.children[column].textContent;
  const compare = (a, b) =>
    head.classList.contains("num") ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b), "en", { numeric: true });
  const rows = [...table.tBodies[0].rows].sort((a, b) => (upwards ? compare(a, b) : compare(b, a)));
  for (const row of rows) row.classList.remove("rule"); // the rules stood between regimes
  for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
  table.tBodies[0].append(...rows);
}

const PAIR = ["pair-first", "pair-second"];

/** Show the verdict of two runs, which was made with the report, and open it: the same whichever is named first. */
function choosePair(runs, open = true) {
  PAIR.forEach((id, i) => (byId(id).value = runs[i]));
  for (const place of document.querySelectorAll(".pair")) {
    place.hidden = !place.dataset.runs.split(" ").every((run) => runs.includes(run));
    if (open && !place.hidden && place.querySelector("details")) place.querySelector("details").open = true;
  }
}

/** Two runs to choose; who takes one that is chosen already swaps them. */
function fillPairs() {
  if (!byId(PAIR[0])) return;
  let before = ["0", "1"];
  choosePair(before, false); // nobody has asked yet, and the table below is what is looked for first
  byId(PAIR[0]).form.hidden = false;
  for (const id of PAIR)
    byId(id).addEventListener("change", () => {
      let now = PAIR.map((one) => byId(one).value);
      if (now[0] === now[1]) now = [before[1], before[0]];
      choosePair((before = now));
    });
}

/** A figure as a file for paper: dark ink, whatever the page's colours are. */
function saveFigure(name) {
  const drawing = byId(`figure-${name}`).querySelector("svg").cloneNode(true);
  drawing.setAttribute("color", "#1b1b1b");
  const file = new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" });
  const address = URL.createObjectURL(file);
  make("a", { href: address, download: `${name}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  toast(`${name}.svg saved`);
}

function fillTables() {
  fillPairs();
  for (const button of document.querySelectorAll(".sortable thead button"))
    button.addEventListener("click", () => sortBy(button.closest("th")));
  for (const button of document.querySelectorAll("button.copy")) {
    const { of, number, form, link } = button.dataset;
    const address = () => `${location.href.split("#")[0]}#${link}`;
    button.addEventListener("click", () =>
      link ? copy(address(), "Link") : copy(copies[of][number][form], { markdown: "Markdown", latex: "LaTeX" }[form]),
    );
  }
  for (const button of document.querySelectorAll("button.save"))
    button.addEventListener("click", () => saveFigure(button.dataset.name));
  for (const choice of document.querySelectorAll("select.intervals"))
    choice.addEventListener("change", () => (byId(`table-${choice.dataset.table}`).dataset.intervals = choice.value));
}
