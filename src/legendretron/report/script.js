"use strict";
// Tables sort on a click on a head, and hovering shows values at once. Without this script the page reads the same.
(() => {
  const value = (row, place) => {
    const cell = row.cells[place];
    const kept = cell.dataset.v;
    if (kept === undefined) return cell.textContent;
    return kept === "" ? null : Number(kept);
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      const button = document.createElement("span"); // of a true button, printed pages have the first copy only
      button.setAttribute("role", "button");
      button.tabIndex = 0;
      button.title = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        button.click();
      });
      button.addEventListener("click", () => {
        const numeric = table.tBodies[0].rows[0]?.cells[place].dataset.v !== undefined;
        const before = head.getAttribute("aria-sort");
        const down = before === null ? numeric : before === "ascending"; // numbers start with the largest
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row, place), row]);
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null); // unknown ones last
          return down ? compare(b, a) : compare(a, b);
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  // in the frame of a notebook, a link to a section would load the notebook into the frame
  const framed = location.protocol === "about:";
  for (const link of framed ? document.querySelectorAll("nav a") : []) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      document.getElementById(link.hash.slice(1)).scrollIntoView();
    });
  }
  const tip = document.createElement("div");
  tip.id = "tip";
  document.body.append(tip);
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove(); // the browser would show it a second time
  }
  const show = (event) => {
    const mark = event.target.closest?.("[data-tip]");
    if (!mark) {
      tip.style.display = "none";
      return;
    }
    tip.textContent = mark.dataset.tip;
    tip.style.display = "block";
    const { width, height } = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 12, innerWidth - width - 8);
    const y = event.clientY + 16 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 16;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${Math.max(8, y)}px`;
  };
  addEventListener("pointermove", show);
  addEventListener("pointerdown", show);
  addEventListener("scroll", () => { tip.style.display = "none"; }, { passive: true });
  const closed = [];
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) {
      part.open = true;
      closed.push(part);
    }
  });
  addEventListener("afterprint", () => {
    for (const part of closed.splice(0)) part.open = false;
  });
})();
