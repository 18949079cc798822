// The main table: sorting by a column, intervals shown or not, copying.

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

function fillTables() {
  for (const button of document.querySelectorAll(".sortable thead button"))
    button.addEventListener("click", () => sortBy(button.closest("th")));
  for (const button of document.querySelectorAll("button.copy")) {
    const { table, form } = button.dataset;
    button.addEventListener("click", () => copy(copies[table][form], { markdown: "Markdown", latex: "LaTeX" }[form]));
  }
  for (const choice of document.querySelectorAll("select.intervals"))
    choice.addEventListener("change", () => (byId(`table-${choice.dataset.table}`).dataset.intervals = choice.value));
}
