// A page of a run that goes on: ask the server now and then, and load the page again when it has a later one.

const EVERY = 2000; // milliseconds

async function askForNews() {
  const here = document.querySelector('meta[name="version"]').content;
  try {
    const answer = await fetch("/", { method: "HEAD", cache: "no-store" });
    byId("live").textContent = "live";
    const isNew = answer.ok && answer.headers.get("ETag") !== `"${here}"`;
    const isBusy = document.activeElement.matches("input, select") || byId("help").open;
    if (isNew && !isBusy) location.reload(); // the address keeps the place, the session's storage the filters
  } catch {
    byId("live").textContent = "server gone";
  }
  setTimeout(askForNews, EVERY);
}

setTimeout(askForNews, EVERY);
