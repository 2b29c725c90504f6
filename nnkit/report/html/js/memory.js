// Buffers over time: a box is a buffer, from its first step to its last, from its first address to its last.
{
  const { plan, report } = nnkit;
  const steps = plan.steps;
  const stepsOf = new Map();
  steps.forEach((step) => stepsOf.set(step.op, (stepsOf.get(step.op) ?? 0) + 1));

  // Where each step begins on the axis; a layer's cost is divided evenly among its steps.
  const edges = (by) => {
    const cost = (step) => {
      const layer = nnkit.layers[nnkit.layerByName.get(step.op)];
      return by === "steps" || !layer ? 1 : (layer[by] ?? 0) / stepsOf.get(step.op);
    };
    const costs = steps.map(cost);
    const total = costs.reduce((sum, each) => sum + each, 0);
    const least = by === "steps" ? 0 : total / steps.length / 50;  // a step without work can still be seen
    const result = [0];
    costs.forEach((each) => result.push(result.at(-1) + Math.max(each, least)));
    return result;
  };

  const boxes = (region) => {
    const found = Object.values(plan.buffers).filter((buffer) => buffer.region === region && buffer.size_bytes);
    if (found.length || region !== "l3") return found;
    return plan.chunks.map((chunk) => ({ name: `${chunk.op} weights`, kind: "weights", offset_bytes: chunk.l3_offset_bytes,
      size_bytes: chunk.size_bytes, first_step: 0, last_step: steps.length - 1 }));
  };

  const draw = (found, at) => (params, api) => {
    const box = found[params.dataIndex];
    const [x, top] = api.coord([at[box.first_step], box.offset_bytes + box.size_bytes]);
    const [right, bottom] = api.coord([at[box.last_step + 1], box.offset_bytes]);
    const area = params.coordSys;
    const shape = echarts.clipRect({ x, y: top, width: right - x, height: bottom - top }, area);
    if (!shape) return null;
    const children = [{ type: "rect", shape, style: { fill: nnkit.colour(box.kind), stroke: nnkit.colour("back"), lineWidth: 0.7 } }];
    const letters = Math.floor(shape.width / 7);
    if (shape.height > 13 && letters > 5) {
      children.push({ type: "text", silent: true, style: { text: nnkit.shorten(box.name, letters), fill: nnkit.colour("text"),
        fontSize: 11, x: shape.x + shape.width / 2, y: shape.y + shape.height / 2, align: "center", verticalAlign: "middle" } });
    }
    return { type: "group", children };
  };

  // A memory that the target's own tool plans: a box for each span of layers.
  const spans = (memory) => {
    const peak = Math.max(...memory.spans.map((span) => span.size_bytes));
    const found = memory.spans.map((span) => ({ name: span.name, kind: span.kind, offset_bytes: 0, size_bytes: span.size_bytes,
      first_step: nnkit.layerByName.get(span.first_layer), last_step: nnkit.layerByName.get(span.last_layer) }));
    const use = { peak_bytes: peak, capacity_bytes: memory.capacity_bytes ?? 0, proven_optimal: true };
    return options(use, found, nnkit.layers.map((layer) => ({ op: layer.name })), nnkit.layers.map((layer, index) => index).concat(nnkit.layers.length));
  };

  const planned = (region) =>
    options(report.memory[region], boxes(region), steps, edges(nnkit.element("memory-width").value));

  const options = (use, found, steps, at) => {
    const layerAt = (x) => steps[at.findIndex((edge) => edge > x) - 1]?.op ?? "";
    // What is below the peak says so below its line: the two are often a few bytes apart.
    const level = (name, value, colour, position = "insideEndTop") => ({ yAxis: value, name, lineStyle: { color: nnkit.colour(colour) },
      label: { formatter: `${name} ${nnkit.bytes(value)}`, position, color: nnkit.colour("text") } });
    const levels = [level("peak", use.peak_bytes, "bad")];
    if (!use.proven_optimal) levels.push(level("lower bound", use.lower_bound_bytes, "good", "insideEndBottom"));
    const near = use.capacity_bytes <= 2.5 * use.peak_bytes && use.capacity_bytes > use.peak_bytes;
    if (near) levels.push(level("capacity", use.capacity_bytes, "text"));
    const highest = near ? use.capacity_bytes : use.peak_bytes;
    const tick = 2 ** Math.max(0, Math.ceil(Math.log2(highest / 8)));
    return {
      grid: { left: 80, right: 24, top: 16, bottom: 128 },
      tooltip: { ...nnkit.tooltip(), formatter: ({ dataIndex }) => {
        const box = found[dataIndex];
        const ops = [steps[box.first_step], steps[box.last_step]].map((step) => nnkit.escape(step?.op ?? ""));
        return `<b>${nnkit.escape(box.name)}</b> (${nnkit.escape(box.kind)})<br>${nnkit.count(box.size_bytes)} bytes at `
          + `${nnkit.count(box.offset_bytes)}<br>from ${ops[0]} to ${ops[1]}`;
      } },
      xAxis: { type: "value", min: 0, max: at.at(-1), ...nnkit.axis(), splitLine: { show: false },
        axisLabel: { color: nnkit.colour("quiet"), rotate: 35, hideOverlap: true, formatter: (x) => nnkit.shorten(layerAt(x), 26) } },
      yAxis: { type: "value", min: 0, max: highest * 1.06, interval: tick, ...nnkit.axis(),
        axisLabel: { color: nnkit.colour("quiet"), formatter: nnkit.bytes, showMaxLabel: false } },
      dataZoom: [{ type: "inside", xAxisIndex: 0, filterMode: "none" }, { type: "slider", xAxisIndex: 0, height: 18, bottom: 6,
        filterMode: "none", labelFormatter: "", textStyle: { color: nnkit.colour("quiet") } }],
      series: [{ type: "custom", renderItem: draw(found, at), encode: { x: [0, 1], y: [2, 3] },
        data: found.map((box) => [at[box.first_step], at[box.last_step + 1], box.offset_bytes, box.offset_bytes + box.size_bytes]),
        markLine: { silent: true, symbol: "none", data: levels } }],
    };
  };

  for (const element of document.querySelectorAll(".chart.memory")) {
    nnkit.chart(element, () => planned(element.dataset.region), (chart) => nnkit.zoomKeys(element, chart));
  }
  for (const element of document.querySelectorAll(".chart.spans")) {
    nnkit.chart(element, () => spans(nnkit.drawn.memories[element.dataset.memory]), (chart) => nnkit.zoomKeys(element, chart));
  }
  const measured = (key) => nnkit.layers.some((layer) => layer[key]);
  for (const option of nnkit.element("memory-width")?.options ?? []) {
    option.disabled = option.value !== "steps" && !measured(option.value);
  }
  nnkit.element("memory-width")?.addEventListener("input", nnkit.drawCharts);
  nnkit.element("memory-reset")?.addEventListener("click", nnkit.drawCharts);
}
