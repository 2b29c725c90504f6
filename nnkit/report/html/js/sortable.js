// Tables that a click on a heading sorts, by the values of their cells.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.firstElementChild.addEventListener("click", () => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const number = "number" in heading.firstElementChild.dataset;
    const key = (row) => row.cells[column].dataset.value;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");  // what was not measured is last either way
      const order = number ? x - y : x.localeCompare(y, "en", { numeric: true });
      return down ? -order : order;
    });
    body.append(...rows);
  }));
}
