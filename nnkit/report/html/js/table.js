// The table of layers: filtered by text, op and placement; a row opens its layer.
{
  const table = nnkit.element("layer-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
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
