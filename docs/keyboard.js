// A box that scrolls sideways is reached by the keyboard and says what it holds: a wide table, or what a notebook showed.
"use strict";

const article = document.querySelector("article");

const headingOf = (box) => {
  const above = (heading) => heading.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [...article.querySelectorAll("h1, h2, h3, h4")].filter(above).at(-1)?.textContent.replace("¶", "").trim();
};

const reach = () => {
  article.querySelectorAll(".md-typeset__scrollwrap, .scrolls").forEach((box, place) => {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `Wide content ${place + 1}: ${headingOf(box) ?? document.title}`);
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  });
};

if (article) {
  new MutationObserver(reach).observe(article, { childList: true, subtree: true }); // the theme wraps tables late
  addEventListener("resize", reach);
  addEventListener("load", reach); // pictures in tables have their width
  reach();
}
