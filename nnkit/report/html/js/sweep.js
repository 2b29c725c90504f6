// Builds of a sweep against each other: what a build costs across, what it gives upwards; the front is what no other
// build beats in both. A click leads to the build's report.
{
  const built = nnkit.rows.filter((row) => row.figures.macs !== undefined);
  const words = { memory_bytes: "memory", weight_bytes: "weights", sqnr_db: "SQNR in dB", macs: "MACs", value: built[0]?.figures.metric.replaceAll("_", " ") };
  const name = (key) => words[key] ?? key.replace(/_bytes$/, " peak").replaceAll("_", " ");
  const measured = (key) => built.some((row) => row.figures[key] != null);
  const varies = (key) => new Set(built.map((row) => row.figures[key])).size > 1;
  const choices = (id, keys, first) => {
    const select = nnkit.element(id);
    if (!select) return;
    select.replaceChildren(...keys.filter(measured).map((key) => new Option(name(key), key)));
    select.value = [...first, ...keys].find((key) => measured(key) && varies(key)) ?? keys.find(measured) ?? "";
    select.addEventListener("input", nnkit.drawCharts);
  };
  const sizes = ["memory_bytes", "weight_bytes", ...nnkit.regions];
  const times = ["cycles", "milliseconds", "instructions", "macs"];
  choices("memory-across", [...sizes, ...times], sizes);
  choices("speed-across", [...sizes, ...times], times);
  for (const id of ["memory-up", "speed-up"]) choices(id, ["value", "sqnr_db", "cosine"], ["value", "sqnr_db"]);

  // From the cheapest on, what gives more than all that cost less.
  nnkit.front = (points) => {
    let best = -Infinity;
    return [...points].sort((a, b) => a.value[0] - b.value[0] || b.value[1] - a.value[1])
      .filter(({ value }) => value[1] > best && ((best = value[1]), true));
  };
  const text = (key, value) => (/_bytes$/.test(key) ? nnkit.bytes(value) : value >= 1000 ? nnkit.count(value) : value.toPrecision(6).replace(/\.?0+$/, ""));
  const open = (row) => { if (row?.page) location.href = row.page; };

  const pareto = (id) => nnkit.chart(nnkit.element(`${id}-chart`), () => {
    const [x, y] = [nnkit.element(`${id}-across`).value, nnkit.element(`${id}-up`).value];
    const points = built.filter((row) => row.figures[x] != null && row.figures[y] != null)
      .map((row) => ({ value: [row.figures[x], row.figures[y]], row, symbol: row.state === "ok" ? "circle" : "diamond" }));
    const dots = Object.entries(Object.groupBy(points, ({ row }) => row.target.split("@")[0])).map(([target, data], index) => ({
      name: target, type: "line", lineStyle: { width: 0 }, symbolSize: 13, data,
      color: nnkit.colour(["accent", "weights", "scratch", "float", "code", "stack"][index % 6]), z: 3 }));
    const front = nnkit.front(points.filter(({ row }) => ["ok", "unproven"].includes(row.state)));
    return {
      grid: { left: 90, right: 40, top: 44, bottom: 56 },
      legend: { top: 6, textStyle: { color: nnkit.colour("text") } },
      tooltip: { trigger: "item", ...nnkit.tooltip(), formatter: ({ data }) => {
        if (!data.row) return "";
        const set = Object.entries(data.row.values).map(([key, value]) => `${nnkit.escape(key)}: ${nnkit.escape(value)}<br>`);
        return `<b>${nnkit.escape(data.row.name)} for ${nnkit.escape(data.row.target)}</b><br>${set.join("")}${nnkit.escape(name(x))} ${text(x, data.value[0])}<br>${nnkit.escape(name(y))} ${text(y, data.value[1])}`;
      } },
      xAxis: { type: "value", scale: true, name: name(x), nameLocation: "middle", nameGap: 32, ...nnkit.axis(),
        axisLabel: { color: nnkit.colour("quiet"), hideOverlap: true, formatter: (value) => text(x, value) } },
      yAxis: { type: "value", scale: true, name: name(y), ...nnkit.axis() },
      series: [...dots, { name: "front", type: "line", step: "end", symbol: "none", silent: true, z: 2,
        color: nnkit.colour("quiet"), lineStyle: { type: "dashed" }, data: front.map(({ value }) => ({ value })) }],
    };
  }, (chart) => chart.on("click", ({ data }) => open(data.row)));
  pareto("memory");
  pareto("speed");
  nnkit.drawCharts();

  // While builds run the page is written anew; a reader who has typed or scrolled keeps the place.
  if (document.body.dataset.running) setTimeout(() => location.reload(), 3000);
}
