// A list of which only the rows in sight exist, however long it is.

const ROW_HEIGHT = 44; // pixels, as in style.css
const MARGIN = 8; // rows drawn above and below what is seen

class VirtualList {
  /**
   * @param viewport the element that scrolls, a listbox.
   * @param draw makes the row of a number, an option.
   * @param choose is told the number of a row that was clicked.
   */
  constructor(viewport, draw, choose) {
    Object.assign(this, { viewport, draw, choose, count: 0, chosen: -1, first: 0, last: 0 });
    this.rows = make("div", { class: "rows", role: "presentation" });
    viewport.append(this.rows);
    viewport.addEventListener("scroll", () => this.soon(), { passive: true });
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(Number(row.dataset.number));
    });
    new ResizeObserver(() => this.soon()).observe(viewport);
  }

  /** Show so many rows; the list stays where it is as far as it still reaches. */
  show(count, chosen) {
    this.count = count;
    this.chosen = chosen;
    this.rows.style.height = `${count * ROW_HEIGHT}px`;
    this.render(true);
  }

  /** Mark a row and bring it in sight. */
  mark(number) {
    this.chosen = number;
    if (number >= 0) {
      const top = number * ROW_HEIGHT;
      const { scrollTop, clientHeight } = this.viewport;
      if (top < scrollTop) this.viewport.scrollTop = top;
      else if (top + ROW_HEIGHT > scrollTop + clientHeight) this.viewport.scrollTop = top + ROW_HEIGHT - clientHeight;
    }
    this.render(true);
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.render(false);
    });
  }

  render(anew) {
    const { scrollTop, clientHeight } = this.viewport;
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - MARGIN);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + MARGIN);
    if (!anew && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const rows = [];
    for (let number = first; number < last; number++) {
      const row = this.draw(number);
      row.id = `row-${number}`;
      row.className = "row";
      row.dataset.number = number;
      row.setAttribute("role", "option");
      row.setAttribute("aria-setsize", this.count);
      row.setAttribute("aria-posinset", number + 1);
      row.setAttribute("aria-selected", number === this.chosen);
      row.style.top = `${number * ROW_HEIGHT}px`;
      rows.push(row);
    }
    this.rows.replaceChildren(...rows);
    if (this.chosen >= first && this.chosen < last) this.viewport.setAttribute("aria-activedescendant", `row-${this.chosen}`);
    else this.viewport.removeAttribute("aria-activedescendant");
  }
}
