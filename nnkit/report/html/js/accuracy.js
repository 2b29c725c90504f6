// SQNR over depth: of each layer's output with the errors of all before it, and with exact inputs.
{
  const cumulative = nnkit.layers.map((layer) => layer.sqnr_db);
  const isolated = nnkit.layers.map((layer) => layer.isolated_sqnr_db);
  const entry = nnkit.chart(nnkit.element("depth-chart"), () => ({
    grid: { left: 60, right: 24, top: 60, bottom: 150 },
    legend: { top: 6, textStyle: { color: nnkit.colour("text") } },
    tooltip: { trigger: "axis", ...nnkit.tooltip(), formatter: ([first]) => {
      const layer = nnkit.layers[first.dataIndex];
      return `<b>${nnkit.escape(layer.name)}</b><br>with all before it ${nnkit.decibel(layer.sqnr_db)}<br>isolated ${nnkit.decibel(layer.isolated_sqnr_db)}`;
    } },
    xAxis: { type: "category", data: nnkit.layers.map((layer) => layer.name), ...nnkit.axis(),
      axisLabel: { color: nnkit.colour("quiet"), rotate: 45, hideOverlap: true, formatter: (name) => nnkit.shorten(name, 26) } },
    yAxis: { type: "value", name: "SQNR in dB", scale: true, ...nnkit.axis() },
    dataZoom: [{ type: "inside" }, { type: "slider", height: 16, bottom: 4, textStyle: { color: nnkit.colour("quiet") } }],
    series: [
      { name: "with all layers before it", type: "line", data: cumulative, connectNulls: true, color: nnkit.colour("accent") },
      ...(isolated.some((value) => value != null)
        ? [{ name: "isolated", type: "line", data: isolated, connectNulls: true, color: nnkit.colour("weights"), lineStyle: { type: "dashed" } }] : []),
    ],
  }), (chart) => {
    nnkit.zoomKeys(nnkit.element("depth-chart"), chart);
    chart.on("click", ({ dataIndex }) => nnkit.showLayer(dataIndex));
  });
  if (entry && !cumulative.some((value) => value != null)) entry.element.hidden = true;
}

// ROC of a verification task: recall over false positives, logarithmic, where products are set.
{
  const roc = nnkit.drawn.task?.roc;
  const line = (name, points, colour, type) => ({ name, type: "line", step: "end", symbol: "none", color: nnkit.colour(colour),
    lineStyle: { type }, data: points.filter(([rate]) => rate > 0) });
  if (roc) nnkit.chart(nnkit.element("roc-chart"), () => ({
    grid: { left: 60, right: 30, top: 60, bottom: 50 },
    legend: { top: 6, textStyle: { color: nnkit.colour("text") } },
    tooltip: { trigger: "axis", ...nnkit.tooltip() },
    xAxis: { type: "log", name: "false positives", nameLocation: "middle", nameGap: 30, max: 1, ...nnkit.axis() },
    yAxis: { type: "value", name: "recall", min: 0, max: 1, ...nnkit.axis() },
    series: [line("float", roc.float, "float", "dashed"), line("quantised", roc.program, "accent", "solid")],
  }));
}
