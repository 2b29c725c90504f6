// The network as dagre lays it out, before and after restructuring; a node has the colour of the layer that does its work.
if (nnkit.drawn.graph) {
  const BITS = { 8: "activation", 16: "weights", 32: "code" };
  const stage = nnkit.element("graph-stage");
  const colouring = nnkit.element("graph-colour");
  const layouts = {};

  const WIDTH = 170;
  const HEIGHT = 30;

  const layout = (name) => {
    if (layouts[name]) return layouts[name];
    const { nodes, edges } = nnkit.drawn.graph[name];
    const graph = new dagre.graphlib.Graph({ multigraph: true });
    graph.setGraph({ rankdir: "TB", nodesep: 20, ranksep: 26 });
    nodes.forEach((node, index) => graph.setNode(index, { width: WIDTH, height: HEIGHT }));
    edges.forEach(([from, to], index) => graph.setEdge(from, to, {}, String(index)));
    dagre.layout(graph);
    const { width, height } = graph.graph();
    layouts[name] = { nodes: nodes.map((node, index) => graph.node(index)), width, height,
      lines: edges.map(([from, to], index) => graph.edge(from, to, String(index)).points) };
    return layouts[name];
  };

  const bits = (layer) => Number(/^[a-z]*(\d+)/.exec(layer.formats.output)?.[1] ?? 32);
  const measured = nnkit.layers.map((layer) => layer.sqnr_db).filter((value) => value != null);
  const [worst, best] = [Math.min(...measured), Math.max(...measured)];
  const between = (share) => {
    const parts = (name) => nnkit.colour(name).match(/\w\w/g).map((part) => parseInt(part, 16));
    const [low, high] = [parts("weights"), parts("activation")];
    return `rgb(${low.map((value, i) => Math.round(value + share * (high[i] - value))).join(",")})`;
  };
  const colours = {
    placement: (layer) => nnkit.colour(layer.placement === "npu" ? "activation" : "weights"),
    bits: (layer) => nnkit.colour(BITS[bits(layer)] ?? "stack"),
    sqnr: (layer) => (layer.sqnr_db == null ? nnkit.colour("context") : between((layer.sqnr_db - worst) / (best - worst || 1))),
  };
  const legends = {
    placement: () => [...new Set(nnkit.layers.map((layer) => layer.placement))]
      .map((name) => [nnkit.report.places[name], nnkit.colour(name === "npu" ? "activation" : "weights")]),
    bits: () => [...new Set(nnkit.layers.map(bits))].map((number) => [`${number} bits`, nnkit.colour(BITS[number] ?? "stack")]),
    sqnr: () => (measured.length ? [[nnkit.decibel(worst), between(0)], [nnkit.decibel((worst + best) / 2), between(0.5)], [nnkit.decibel(best), between(1)]] : []),
  };

  const options = () => {
    const { nodes, edges } = nnkit.drawn.graph[stage.value];
    const places = layout(stage.value);
    const colour = (node) => (node.layer == null ? nnkit.colour("card") : colours[colouring.value](nnkit.layers[node.layer]));
    const entries = legends[colouring.value]();
    if (nodes.some((node) => node.layer == null)) entries.push(["in no layer", nnkit.colour("card")]);
    nnkit.element("graph-legend").innerHTML = entries.map(([text, fill]) => `<b style="background:${fill}"></b>${nnkit.escape(text)}`).join("");
    const onPaper = nnkit.onPaper();
    const fitted = Math.max(1, (places.width + 40) / element.clientWidth);
    element.style.height = onPaper ? `${(places.height + 40) / fitted}px` : "";
    const area = [element.clientWidth, element.clientHeight];
    const scale = Math.max(fitted, (places.height + 40) / area[1]);
    const [across, down] = area.map((pixels) => pixels * scale);  // all of it, in the proportions of the chart
    const left = (across - places.width) / 2;
    // Opened at a readable size at the top; the whole is a key away.
    const shown = whole || onPaper ? 1 : 1 / scale;
    const window = [{ start: 50 - 50 * shown, end: 50 + 50 * shown }, { start: 0, end: 100 * shown }];
    const drawNode = ({ dataIndex }, api) => {
      const place = places.nodes[dataIndex];
      const [x, y] = api.coord([left + place.x - WIDTH / 2, 20 + place.y - HEIGHT / 2]);
      const [width, height] = api.size([WIDTH, HEIGHT]);
      const node = nodes[dataIndex];
      const shape = { x, y, width, height, r: Math.min(5, height / 4) };
      const children = [{ type: "rect", shape, style: { fill: colour(node), stroke: nnkit.colour("quiet"), lineWidth: 0.7 } }];
      const letters = Math.floor(width / 6.2);
      if (height > 11) {
        const lines = height > 24 ? `${nnkit.shorten(node.name, letters)}\n${node.op}` : nnkit.shorten(node.name, letters);
        children.push({ type: "text", silent: true, style: { text: lines, fill: nnkit.colour("text"),
          fontSize: 10.5, lineHeight: 13, x: x + width / 2, y: y + height / 2, align: "center", verticalAlign: "middle" } });
      }
      return { type: "group", children };
    };
    const drawLine = ({ dataIndex }, api) => ({ type: "polyline", silent: true,
      shape: { points: places.lines[dataIndex].map(({ x, y }) => api.coord([left + x, 20 + y])) },
      style: { stroke: nnkit.colour("quiet"), fill: "none", lineWidth: 1.2 } });
    const axis = { type: "value", show: false, min: 0 };
    const still = { filterMode: "none", type: "inside" };
    return {
      grid: { left: 0, right: 0, top: 0, bottom: 0 },
      tooltip: { ...nnkit.tooltip(), formatter: ({ dataIndex }) => {
        const node = nodes[dataIndex];
        const layer = nnkit.layers[node.layer];
        return `<b>${nnkit.escape(node.name)}</b> ${nnkit.escape(node.op)}<br>${nnkit.escape(node.shape.join("×"))}`
          + (layer ? `<br>layer ${nnkit.escape(layer.name)}, ${nnkit.escape(layer.formats.output)}, ${nnkit.decibel(layer.sqnr_db)}` : "");
      } },
      xAxis: { ...axis, max: across }, yAxis: { ...axis, max: down, inverse: true },
      dataZoom: [{ ...still, xAxisIndex: 0, ...window[0] }, { ...still, yAxisIndex: 0, ...window[1] }],
      series: [
        { type: "custom", renderItem: drawLine, data: edges.map(() => [0, 0]), silent: true, z: 1 },
        { type: "custom", renderItem: drawNode, data: nodes.map((node, index) => [left + places.nodes[index].x, places.nodes[index].y]), z: 2 },
      ],
    };
  };

  const element = nnkit.element("graph-chart");
  let whole = false;
  const entry = nnkit.chart(element, options, (chart) => {
    chart.on("click", ({ dataIndex }) => {
      const { layer } = nnkit.drawn.graph[stage.value].nodes[dataIndex];
      if (layer != null) nnkit.showLayer(layer);
    });
    const move = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] };
    element.addEventListener("keydown", (event) => {
      const zoom = { "+": 0.8, "=": 0.8, "-": 1.25 }[event.key];
      if (event.key === "0") {
        whole = true;
        entry.draw();
      } else if (!zoom && !move[event.key]) return;
      event.preventDefault();
      chart.getOption().dataZoom.forEach(({ start, end }, dataZoomIndex) => {
        const [width, centre] = [(end - start) * (zoom ?? 1), (start + end) / 2 + (end - start) * (move[event.key]?.[dataZoomIndex] ?? 0)];
        const from = Math.min(Math.max(0, centre - width / 2), Math.max(0, 100 - width));
        if (event.key !== "0") chart.dispatchAction({ type: "dataZoom", dataZoomIndex, start: from, end: Math.min(100, from + width) });
      });
    });
  });
  [stage, colouring].forEach((control) => control.addEventListener("input", () => entry.draw()));
  nnkit.element("graph-reset").addEventListener("click", () => {
    whole = !whole;
    nnkit.element("graph-reset").textContent = whole ? "Readable size" : "Show all";
    entry.draw();
  });
}
