"use strict";
// One page: files are gathered here and sent as one form; jobs are asked for while any of them runs.
const element = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const MODELS = [".onnx", ".prototxt", ".tflite"];
const PICTURES = [".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".webp", ".npy"];
const WORDS = { waiting: "waiting", running: "running", failed: "could not be built", cancelled: "cancelled",
  ok: "passed", unproven: "not proven", gate_failed: "failed a gate", mismatch: "artifact differs" };
const CLASSES = { ok: "good", unproven: "unsure", failed: "bad", gate_failed: "bad", mismatch: "bad" };
let targets = [];  // as GET /api/targets has them
let chosen = [];  // {file, path, name}; name: under which it is sent, once each

// Which field of the form a file belongs to, by its name.
const kind = ({ name }) => {
  const suffix = name.slice(name.lastIndexOf(".")).toLowerCase();
  if (MODELS.includes(suffix)) return "model";
  if (suffix === ".caffemodel") return "weights";
  if (PICTURES.includes(suffix)) return "images";
  return /\.ya?ml$/.test(suffix) ? "recipe" : "files";
};

const show = () => {
  const pictures = chosen.filter((file) => kind(file) === "images");
  const others = chosen.filter((file) => kind(file) !== "images");
  element("chosen").replaceChildren(
    ...others.map((file) => make("li", {}, `${file.name} (${kind(file)})`)),
    ...(pictures.length ? [make("li", {}, `${pictures.length} picture${pictures.length > 1 ? "s" : ""}`)] : []));
  const recipe = others.some((file) => kind(file) === "recipe");  // which says chip and precision itself
  for (const id of ["chip", "precision"]) {
    element(id).parentElement.hidden = recipe || element(id).options.length === 0;
  }
  const lacking = !element("chip").parentElement.hidden && !element("chip").value;
  element("build").disabled = lacking || !others.some((file) => ["model", "recipe"].includes(kind(file)));
};
const named = (list, id) => list.find(({ name }) => name === element(id).value);
// The chips of the chosen target, and the precisions of the chosen chip, or of a target without chips.
const offer = () => {
  const options = (named(targets, "target")?.chips ?? []).map(({ name }) => new Option(name));
  element("chip").replaceChildren(...(options.length ? [new Option("choose one", ""), ...options] : []));
  offerPrecisions();
};
const offerPrecisions = () => {
  const target = named(targets, "target");
  const { precisions } = named(target?.chips ?? [], "chip") ?? target ?? { precisions: [] };
  element("precision").replaceChildren(...precisions.map((name) => new Option(name)));
  show();
};
const shown = (id) => !element(id).parentElement.hidden && element(id).value;
// files: each with its path as far as the browser tells it. Folders by kind hold pictures of the same names
// (stop/000.jpg, yield/000.jpg): the later ones are sent with their folder in the name, yield_000.jpg.
const add = (files) => {
  const same = ({ file, path }) => `${path} ${file.size} ${file.lastModified}`;
  const known = new Set(chosen.map(same));
  const names = new Set(chosen.map(({ name }) => name));
  for (const [file, path] of files) {
    if (file.name.startsWith(".") || known.has(same({ file, path }))) continue;
    const parts = path.split("/").filter(Boolean);
    let { name } = file;
    for (let last = 2; names.has(name) && last <= parts.length; last++) name = parts.slice(-last).join("_");
    for (let number = 2; names.has(name); number++) name = `${number}_${file.name}`;
    names.add(name);
    chosen.push({ file, path, name });
  }
  show();
};
const withPaths = (files) => [...files].map((file) => [file, file.webkitRelativePath || file.name]);

for (const id of ["files", "folder"]) {
  element(id).addEventListener("change", ({ target }) => add(withPaths(target.files)));
}
const drop = element("drop");
addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
addEventListener("dragleave", () => drop.classList.remove("over"));
addEventListener("drop", async (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  add(entries.length ? (await Promise.all(entries.map(filesOf))).flat() : withPaths(event.dataTransfer.files));
});
// A dropped folder's files, those below included.
const filesOf = async (entry) => {
  if (entry.isFile) return [[await new Promise((done, failed) => entry.file(done, failed)), entry.fullPath]];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return found;
    for (const each of some) found.push(...await filesOf(each));
  }
};

const said = (text, bad = false) => {
  element("said").textContent = text;
  element("said").className = bad ? "bad" : "";
};
const ask = async (path, options) => {
  const answer = await fetch(path, options);
  if (answer.status === 401) location.href = "/login";
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const { detail } = await answer.json().catch(() => ({ detail: answer.statusText }));
  throw new Error(typeof detail === "string" ? detail : JSON.stringify(detail));
};

element("send").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData();
  for (const { file, name } of chosen) form.append(kind({ name }), file, name);
  const target = element("target").value;
  form.append("target", shown("chip") ? `${target}:${shown("chip")}` : target);
  if (shown("precision")) {
    form.append("settings", JSON.stringify({ [`targets.${target}.precision`]: shown("precision") }));
  }
  said("sending …");
  element("build").disabled = true;
  try {
    await ask("/api/jobs", { method: "POST", body: form });
    said("");
    element("send").reset();
  } catch (error) {
    said(error.message, true);
  }
  show();
  follow();
});
element("send").addEventListener("reset", () => { chosen = []; said(""); setTimeout(offer); });
element("target").addEventListener("change", offer);
element("chip").addEventListener("change", offerPrecisions);

const button = (text, name, action) => make("button", { type: "button", textContent: text, ariaLabel: `${text} ${name}`,
  onclick: async () => { try { await action(); } catch (error) { said(error.message, true); } follow(); } });

const drawn = (job) => {
  const state = job.state === "done" ? job.status : job.state;
  const ended = !["waiting", "running"].includes(job.state);
  const actions = make("div", { className: "actions" });
  for (const build of job.builds) {
    const what = job.builds.length > 1 ? ` for ${build.target}` : "";
    actions.append(make("a", { href: build.report, target: "_blank", rel: "noopener", textContent: `Report${what}` }));
    if (build.package) actions.append(make("a", { href: build.package, textContent: `Package${what}` }));
  }
  if (job.stages.length) actions.append(make("a", { href: `/api/jobs/${job.id}/log`, target: "_blank", rel: "noopener", textContent: "Log" }));
  if (ended && job.builds.length) actions.append(make("a", { href: `/api/jobs/${job.id}/recipe`, textContent: "Recipe" }));
  if (ended) actions.append(button("Remove", job.name, () => ask(`/api/jobs/${job.id}`, { method: "DELETE" })));
  else actions.append(button("Cancel", job.name, () => ask(`/api/jobs/${job.id}/cancel`, { method: "POST" })));
  return make("li", { className: "figure" },
    make("h3", {}, `${job.name} `, make("span", { className: "quiet" }, job.target ? `for ${job.target} ` : ""),
      make("span", { className: `state ${CLASSES[state] ?? "quiet"}` }, WORDS[state] ?? state)),
    make("ol", { className: "stages" }, ...job.stages.map((stage) => make("li", { className: stage.state, title: stage.detail },
      stage.state === "running" ? `${stage.stage} …` : stage.stage))),
    ...(job.error && job.state === "failed" ? [make("p", { className: "error" }, job.error)] : []),
    actions);
};

let timer = 0;
let before = "";
const follow = async () => {
  clearTimeout(timer);
  try {
    const jobs = await ask("/api/jobs");
    const now = JSON.stringify(jobs);
    if (now !== before) {
      element("jobs").replaceChildren(...jobs.map(drawn));
      element("none").hidden = jobs.length > 0;
      before = now;
    }
    const running = jobs.some((job) => ["waiting", "running"].includes(job.state));
    timer = setTimeout(follow, running ? 700 : 10000);
  } catch {
    said("the server does not answer", true);
    timer = setTimeout(follow, 5000);
  }
};

(async () => {
  targets = await ask("/api/targets");
  element("target").replaceChildren(...targets.map(({ name, about }) => new Option(`${name}: ${about}`, name)));
  offer();
  follow();
})();
