// What all parts share: the build's data, numbers in words, colours of the theme, charts that follow their element.
const nnkit = JSON.parse(document.getElementById("data").textContent);
const THIN = "\u2009";

nnkit.element = (id) => document.getElementById(id);
nnkit.escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
nnkit.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
nnkit.count = (number) => (number == null ? "–" : Math.round(number).toLocaleString("en").replaceAll(",", THIN));
nnkit.decibel = (value) => (value == null ? "–" : `${value.toFixed(1)}${THIN}dB`);
nnkit.layers = nnkit.report?.layers ?? [];  // a page of several builds has none
nnkit.layerByName = new Map(nnkit.layers.map((layer, index) => [layer.name, index]));

nnkit.bytes = (size) => {
  if (size == null) return "–";
  for (const unit of ["B", "KiB", "MiB"]) {
    if (size < 1024) return `${unit === "B" || size >= 100 ? Math.round(size) : size.toPrecision(3)}${THIN}${unit}`;
    size /= 1024;
  }
  return `${size.toPrecision(3)}${THIN}GiB`;
};

// Names differ at both ends more than in the middle: that is where a long one is cut.
nnkit.shorten = (text, length) => {
  if (text.length <= length) return text;
  const head = Math.ceil((length - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - 1 - head))}`;
};

// Charts are drawn when their part is first shown, since a hidden element has no size; again in the other theme.
nnkit.charts = [];
nnkit.chart = (element, options, ready) => {
  if (!element) return;
  const entry = { element, draw() {
    if (!element.clientWidth) return;
    if (!entry.chart) {
      entry.chart = echarts.init(element, null, { renderer: "svg" });
      if (ready) ready(entry.chart);
    }
    entry.chart.setOption({ animation: false, backgroundColor: "transparent", ...options() }, { notMerge: true });
    entry.chart.resize();
    entry.chart.getZr().flush();  // now: paper waits for no frame
  } };
  nnkit.charts.push(entry);
  return entry;
};
nnkit.drawCharts = () => nnkit.charts.forEach((entry) => entry.draw());
nnkit.axis = () => ({
  axisLabel: { color: nnkit.colour("quiet") },
  nameTextStyle: { color: nnkit.colour("quiet") },
  axisLine: { lineStyle: { color: nnkit.colour("line") } },
  splitLine: { lineStyle: { color: nnkit.colour("line"), opacity: 0.6 } },
});
nnkit.tooltip = () => ({
  backgroundColor: nnkit.colour("card"), borderColor: nnkit.colour("line"), confine: true,
  textStyle: { color: nnkit.colour("text"), fontSize: 13 },
});
nnkit.onPaper = () => document.documentElement.classList.contains("printing");
nnkit.redrawCharts = () => nnkit.onPaper() || nnkit.drawCharts();  // while printing, the paper has its own size and theme
addEventListener("resize", nnkit.redrawCharts);
// On paper all parts stand one below the other, as wide as a page, in the light theme, with what was folded open.
nnkit.printing = (on) => {
  document.documentElement.classList.toggle("printing", on);
  for (const fold of document.querySelectorAll("#rewrites details, #overview details")) fold.open = on;
  nnkit.drawCharts();
};
addEventListener("beforeprint", () => nnkit.printing(true));
addEventListener("afterprint", () => nnkit.printing(false));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nnkit.redrawCharts);

// Keys for a chart that zooms along one axis: + and - zoom, arrows move, 0 shows all.
nnkit.zoomKeys = (element, chart) => element.addEventListener("keydown", (event) => {
  const { start, end } = chart.getOption().dataZoom[0];
  const width = end - start;
  const steps = { "+": [width / 4, -width / 4], "=": [width / 4, -width / 4], "-": [-width / 2, width / 2],
    ArrowLeft: [-width / 5, -width / 5], ArrowRight: [width / 5, width / 5], 0: [-start, 100 - end] };
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  let [from, to] = [start + step[0], end + step[1]];
  if (event.key.startsWith("Arrow")) {
    const back = Math.max(0, -from) - Math.max(0, to - 100);
    [from, to] = [from + back, to + back];
  }
  chart.dispatchAction({ type: "dataZoom", start: Math.max(0, from), end: Math.min(100, to) });
});
