// The table of layers: sorted by a click on a heading, filtered by text, op and placement.
{
  const table = nnkit.element("layer-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];

  headings.forEach((heading, column) => heading.firstElementChild.addEventListener("click", () => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const number = "number" in heading.firstElementChild.dataset;
    const key = (row) => row.cells[column].dataset.value;
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");  // what was not measured is last either way
      const order = number ? x - y : x.localeCompare(y, "en", { numeric: true });
      return down ? -order : order;
    });
    body.append(...rows);
  }));

  const [search, op, placement] = ["search", "op", "placement"].map((name) => nnkit.element(`layer-${name}`));
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(words.every((word) => text.includes(word)) && (!op.value || row.dataset.op === op.value)
        && (!placement.value || row.dataset.placement === placement.value));
      shown += !row.hidden;
    }
    nnkit.element("layer-count").textContent = `${shown} of ${rows.length} layers`;
  };
  [search, op, placement].forEach((control) => control.addEventListener("input", filter));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) nnkit.showLayer(Number(row.dataset.layer));
  });
}
