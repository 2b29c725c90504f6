// One layer in a dialog: formats, origins, proof, what was observed, the rewrites that touched it, its values.
nnkit.showLayer = (index) => {
  const layer = nnkit.layers[index];
  const dialog = nnkit.element("layer-dialog");
  const e = nnkit.escape;
  const histogram = nnkit.drawn.histograms?.[layer.name];
  const touched = nnkit.report.rewrites.filter((rule) => rule.sites.some((site) =>
    layer.origins.some((origin) => site.split(/[\s,+]+/).includes(origin))));
  const rows = [
    ["origins", layer.origins.map(e).join(", ")],
    ["formats", Object.entries(layer.formats).map(([role, form]) => `${e(role)} <code>${e(form)}</code>`).join(", ")],
    ["accumulator", `${e(layer.accumulator)}: ${e(layer.proof.replaceAll("_", " "))}`
      + (layer.bits_lost ? `, ${e(layer.bits_lost)} bit${layer.bits_lost === 1 ? "" : "s"} of weights given up for the proof` : "")
      + (layer.proof_note ? `; ${e(layer.proof_note)}` : "")],
    ["work", `${nnkit.count(layer.macs)} MACs` + (layer.instructions == null ? "" : `, ${nnkit.count(layer.instructions)} instructions`)
      + (layer.cycles == null ? "" : `, about ${nnkit.count(layer.cycles)} cycles`)
      + (layer.milliseconds == null ? "" : `, about ${layer.milliseconds.toPrecision(3)}${THIN}ms`)],
    ["memory", `peak ${nnkit.bytes(layer.peak_bytes)}, weights ${nnkit.bytes(layer.weight_bytes)}`],
    ["SQNR", `${nnkit.decibel(layer.sqnr_db)}, isolated ${nnkit.decibel(layer.isolated_sqnr_db)}`],
    ["rewrites", touched.map((rule) => e(rule.name)).join(", ") || "none"],
  ];
  if (layer.observed) {
    const seen = layer.observed;
    rows.push(["observed", `accumulator up to ${nnkit.count(seen.accumulator_max)}, ${nnkit.count(seen.wraps)} wraps, `
      + `${nnkit.count(seen.saturated)} of ${nnkit.count(seen.values)} values clamped`]);
  }
  if (layer.clip_rate != null) rows.push(["clipped", `${layer.clip_rate ? (100 * layer.clip_rate).toPrecision(3) : 0} % of the float values`]);
  if (layer.unseen) {
    rows.push(["unseen", `up to ${layer.unseen.factor.toFixed(2)} times as large as calibration saw, on ${e(layer.unseen.input)}`]);
  }
  dialog.innerHTML = `<form method="dialog" style="float:right"><button>Close</button></form>
    <h2 id="layer-title">${e(layer.name)} <span class="quiet">${e(layer.op)}</span></h2>
    <table><tbody>${rows.map(([what, text]) => `<tr><th scope="row">${what}</th><td>${text}</td></tr>`).join("")}</tbody></table>
    ${histogram ? '<h3>Its float values on the first verification inputs</h3><div class="chart" id="layer-chart" role="img" aria-label="Histogram of the float values of this layer"></div>' : ""}`;
  dialog.showModal();
  if (histogram) nnkit.drawHistogram(nnkit.element("layer-chart"), histogram);
};

nnkit.drawHistogram = (element, { low, high, counts }) => {
  const width = (high - low) / counts.length;
  const points = counts.map((count, bin) => [low + (bin + 0.5) * width, count]);
  const chart = echarts.init(element, null, { renderer: "svg" });
  chart.setOption({
    animation: false, grid: { left: 70, right: 30, top: 20, bottom: 40 }, tooltip: { trigger: "axis", ...nnkit.tooltip(), formatter: ([{ dataIndex }]) =>
      `${nnkit.count(counts[dataIndex])} values from ${(low + dataIndex * width).toPrecision(3)} to ${(low + (dataIndex + 1) * width).toPrecision(3)}` },
    xAxis: { type: "value", min: low, max: high, ...nnkit.axis(),
      axisLabel: { color: nnkit.colour("quiet"), showMinLabel: false, showMaxLabel: false } },
    yAxis: { type: "log", logBase: 10, min: 0.5, ...nnkit.axis() },
    series: [{ type: "line", step: "middle", symbol: "none", areaStyle: { opacity: 0.4 }, color: nnkit.colour("activation"),
      data: points.map(([x, count]) => [x, Math.max(count, 0.5)]) }],
  });
};
