// The page of the playground: sends what is written, and shows what becomes of it. All text of others becomes text nodes or attributes.

const FIELDS = ["manifest", "namespace", "target", "mappings", "settings"];
const TABS = ["manifest", "namespace", "mappings", "settings"];
const NAMESPACE = `apiVersion: v1
kind: Namespace
metadata:
  name: default
  labels:
    vgpu-webhook.io/inject: enabled
`;
const STATUS = /^([-+ ] *vgpu-webhook\.io\/status:) (.*)/; // a line of JSON, for programs
const PAUSE = 120; // milliseconds after a key until what was typed is sent
const LONGEST = 1024 * 1024; // characters that a link may carry
const TOKENS = new RegExp([
  /(?<comment>(?<!\S)#.*)/,
  /(?<key>(?<![^\s,{])(?:"[^"]*"|'[^']*'|[^\s,[\]{}"'#][^\s,[\]{}]*)(?=:(?!\S)))/,
  /(?<text>(?<![^\s,[{])(?:"(?:\\.|[^"\\])*"|'[^']*'))/,
  /(?<value>(?<![^\s,[{])(?:true|false|null|-?\d[\w.%]*)(?![^\s,\]}]))/,
].map(({ source }) => source).join("|"), "g");
const LONG = 500; // characters of a line that are highlighted
const SHOWN_ABOVE = new Set(["warnings", "denied", "would be", "remedy"]); // rows that are notices already

const byId = (id) => document.getElementById(id);
let examples = [];
let marks = {}; // tab and line → what was found about it
let timer = 0;
let linking = 0;
let painting = 0;
let running = new AbortController();

/** Make an element with properties and children; a text among the children becomes a text node. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Send data, or nothing, and return the answer; an error has the server's message. */
async function ask(path, data, signal) {
  const request = data === undefined
    ? { signal }
    : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data), signal };
  const response = await fetch(path, request);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

// What is written, and the link that carries it

function state() {
  return Object.fromEntries(FIELDS.map((field) => [field, byId(field).value]));
}

function write(values) {
  for (const field of FIELDS) {
    const value = values[field] ?? (field === "namespace" ? NAMESPACE : "");
    if (field === "target") choose(byId(field), value);
    else byId(field).value = value;
  }
  paint();
  update();
}

/** Choose an option, which is added if a vendor is not known yet. */
function choose(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value));
  select.value = value;
}

async function packed(values) {
  const stream = new Blob([JSON.stringify(values)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const decoder = new TextDecoder();
  let found = "";
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    found += decoder.decode(value, { stream: true });
    if (found.length > LONGEST) throw new Error("too long");
  }
  const values = JSON.parse(found);
  if (FIELDS.some((field) => typeof (values[field] ?? "") !== "string")) throw new Error("not texts");
  return values;
}

async function carry(values) {
  const link = await packed(values);
  if (location.hash !== `#${link}`) history.replaceState(null, "", `#${link}`);
}

/** Take what the link carries; return whether there is something. */
async function restore() {
  if (location.hash.length < 2) return false;
  try {
    write(await unpacked(location.hash.slice(1)));
    byId("example").value = "";
  } catch {
    report("The link cannot be read: it is incomplete, or of another page.", true);
  }
  return true;
}

async function share() {
  clearTimeout(linking);
  await carry(state());
  try {
    await navigator.clipboard.writeText(location.href);
    report("The link is copied. It holds what you wrote, and opens only on your machine.");
  } catch {
    report("The address of this page is the link: copy it from the address bar. It opens only on your machine.");
  }
}

// The text behind each field: it has line numbers, colors and findings; the field above it has the caret

/** Once before the next frame: a browser may tell of a long insertion line by line. */
function paint() {
  cancelAnimationFrame(painting);
  painting = requestAnimationFrame(() => TABS.forEach(paintTab));
}

function paintTab(tab) {
  const field = byId(tab);
  const behind = field.previousElementSibling;
  const height = lineHeight(field);
  const first = Math.max(0, Math.floor(field.scrollTop / height) - 1);
  const lines = field.value.split("\n").slice(first, first + Math.ceil(field.clientHeight / height) + 2);
  behind.replaceChildren(...lines.map((line, at) => row(line, first + at + 1, marks[`${tab} ${first + at + 1}`])));
  behind.style.setProperty("--x", `${field.scrollLeft}px`);
  behind.style.setProperty("--y", `${field.scrollTop - first * height}px`);
}

function lineHeight(field) {
  return parseFloat(getComputedStyle(field).lineHeight);
}

function row(line, number, mark) {
  return element(
    "div", { className: mark?.level ?? "", "data-line": number, "data-finding": mark?.text.replace(/: container \S+:/, ":") ?? "" },
    element("code", {}, ...tokens(line.slice(0, LONG)), line.slice(LONG)),
  );
}

/** Split a line into texts and colored parts. */
function tokens(line) {
  let end = 0;
  const found = [...line.matchAll(TOKENS)].flatMap(({ 0: text, index, groups }) => {
    const before = line.slice(end, index);
    end = index + text.length;
    const kind = Object.keys(groups).find((name) => groups[name] !== undefined);
    return [before, element("span", { className: kind }, text)];
  });
  return [...found, line.slice(end)];
}

/** Mark the lines that something was found about, each with the last: a denial comes after warnings. */
function mark({ objects, problems }) {
  const found = [
    ...objects.flatMap(({ findings }) => findings).map((each) => ({ tab: "manifest", ...each })),
    ...problems.map((each) => ({ level: "error", ...each })),
  ];
  marks = Object.fromEntries(found.map((each) => [`${each.tab} ${each.line}`, each]));
  paint();
}

// What becomes of it

function later() {
  clearTimeout(timer);
  timer = setTimeout(update, PAUSE);
}

async function update() {
  clearTimeout(timer);
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const values = state();
  for (const tab of TABS.slice(2)) byId(`tab-${tab}`).classList.toggle("filled", values[tab].trim() !== "");
  try {
    const answer = await ask("answer", values, signal);
    if (signal.aborted) return;
    show(answer);
    clearTimeout(linking);
    linking = setTimeout(() => carry(values), 4 * PAUSE); // browsers permit only so many changes of the address
  } catch (error) {
    if (!signal.aborted) report(`No answer: ${error.message}`, true);
  }
}

function show(answer) {
  byId("policy").textContent = `policy: ${answer.policy.title} (${answer.policy.digest})`;
  if (answer.targets.length) {
    options(byId("target"), answer.targets);
  }
  mark(answer);
  byId("problems").replaceChildren(...answer.problems.map(problem));
  byId("result").replaceChildren(...answer.objects.map(object));
  report(summary(answer));
}

/** Offer these options behind the first one, and keep the choice. */
function options(select, names) {
  const first = select.options[0];
  const chosen = select.value;
  if ([...select.options].slice(1).map((option) => option.value).join() === names.join()) return;
  select.replaceChildren(first, ...names.map((name) => new Option(name, name)));
  choose(select, chosen);
}

function report(text, failed = false) {
  const status = byId("status");
  if (status.textContent !== text) status.textContent = text; // announced only if it is new
  status.classList.toggle("failed", failed);
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function summary({ objects, problems }) {
  const unread = problems.length ? [count(problems.length, "problem")] : [];
  const warnings = objects.flatMap(({ findings }) => findings).filter(({ level }) => level === "warning").length;
  const rest = [...(warnings ? [count(warnings, "warning")] : []), ...unread].join(", ");
  if (objects.length === 1) return `${objects[0].title}: ${objects[0].outcome}${rest ? `, ${rest}` : ""}`;
  if (!objects.length) return rest || "Nothing is written yet.";
  const outcomes = ["changed", "unchanged", "denied"].map((outcome) => [
    objects.filter((each) => each.outcome === outcome).length, outcome,
  ]);
  const parts = outcomes.filter(([number]) => number).map(([number, outcome]) => `${number} ${outcome}`);
  return `${objects.length} objects: ${[...parts, ...(rest ? [rest] : [])].join(", ")}`;
}

function problem({ tab, line, text }) {
  const place = line === null ? tab : `${tab}, line ${line}`;
  const button = element("button", { type: "button" }, `${place ? `${place}: ` : ""}${text}`);
  button.addEventListener("click", () => goTo(tab, line));
  return element("li", {}, button);
}

/** Show a line of what is written. */
function goTo(tab, line) {
  if (TABS.includes(tab)) selectTab(tab);
  const field = byId(tab);
  field?.focus();
  if (line === null || !TABS.includes(tab)) return;
  field.scrollTop = (line - 0.5) * lineHeight(field) - field.clientHeight / 2;
  const lines = field.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  field.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
}

function object(each) {
  const kind = each.outcome === "denied" ? "denied-object" : each.outcome;
  const modes = [...new Set(each.pods.map((pod) => pod.mode))].filter((mode) => mode !== "enforce");
  const denials = each.pods.filter((pod) => pod.denial !== null && pod.sent);
  const [denied, warned] = ["error", "warning"].map((level) => each.findings.filter((found) => found.level === level));
  return element(
    "article", { className: kind },
    element("h3", {}, each.title, badge(each.outcome), ...modes.map((mode) => badge(`mode ${mode}`))),
    ...denials.map((pod) => denial(pod, each.pods.length > 1, pod.allowed ? null : denied.shift().line)),
    ...warned.map(({ text, line }) => element("div", { className: "notice warning" }, paragraph("Warning", text, line))),
    ...each.notes.map((text) => element("div", { className: "notice note" }, paragraph("Note", text))),
    ...(each.diff.length ? [element("h4", {}, "Difference"), diff(each)] : []),
    ...explanations(each.pods),
    each.stored === null ? null : element(
      "details", {}, element("summary", {}, "As stored"), scrolling(`${each.title} as stored`, {}, each.stored),
    ),
  );
}

function badge(text) {
  return element("span", { className: "badge" }, text);
}

function paragraph(label, text, line = null) {
  const place = line === null ? null : element("button", { type: "button", className: "line" }, `line ${line}`);
  place?.addEventListener("click", () => goTo("manifest", line));
  return element("p", {}, element("strong", {}, label, place && ", ", place, ": "), text);
}

function scrolling(label, properties, ...children) {
  return element("pre", { tabIndex: 0, role: "region", "aria-label": label, ...properties }, ...children);
}

function denial({ path, allowed, denial: found, correction }, several, line) {
  const where = [several && path, found.container && `container ${found.container}`].filter(Boolean).join(", ");
  const remedy = found.remedy ? [paragraph("Remedy", found.remedy)] : [];
  if (correction?.remove.length) remedy.push(paragraph("Remove", correction.remove.join(", ")));
  if (correction?.text) {
    remedy.push(element("p", {}, "Write this instead; with it the pod is not denied:"));
    remedy.push(scrolling("What to write instead", {}, correction.text));
  }
  const label = `${allowed ? "Would be denied" : "Denied"} (${found.code})`;
  return element(
    "div", { className: `notice ${allowed ? "warning" : "denied"}` },
    paragraph(label, `${where ? `${where}: ` : ""}${found.message}`, line), ...remedy,
  );
}

function diff({ title, diff: lines }) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  const shown = lines.slice(2).map((line) => {
    const className = kinds[line[0]] ?? "";
    const [, key, status] = line.match(STATUS) ?? [];
    return key === undefined
      ? element("div", { className }, line)
      : element("details", { className }, element("summary", {}, key), status);
  });
  const label = `Difference of ${title}`;
  return element("div", { className: "diff", tabIndex: 0, role: "region", "aria-label": label }, element("div", {}, ...shown));
}

function explanations(pods) {
  const parts = pods.flatMap((pod) => {
    const title = pods.length > 1 ? [element("h5", {}, `${pod.path}: ${pod.outcome} (${pod.code})`)] : [];
    const containers = pod.containers.flatMap((each) => [element("h5", {}, each.title), rows(each.rows)]);
    return [...title, ...containers, rows(pod.rows)].filter((part) => part !== null);
  });
  return parts.length ? [element("h4", {}, "Explanation"), ...parts] : [];
}

function rows(found) {
  const shown = Object.entries(found).filter(([label]) => !SHOWN_ABOVE.has(label));
  if (!shown.length) return null;
  return element("dl", { className: "rows" }, ...shown.flatMap(([label, entries]) => [
    element("dt", {}, label),
    element("dd", {}, ...entries.map(([what, why]) => element(
      "p", {}, what, why ? element("span", { className: "why" }, ` — ${why}`) : null,
    ))),
  ]));
}

// Tabs and choices

function selectTab(name) {
  for (const tab of TABS) {
    const button = byId(`tab-${tab}`);
    const selected = tab === name;
    button.setAttribute("aria-selected", selected);
    button.tabIndex = selected ? 0 : -1;
    byId(`panel-${tab}`).hidden = !selected;
  }
}

function moveTab(event) {
  const tabs = TABS.filter((tab) => !byId(`tab-${tab}`).hidden);
  const at = tabs.findIndex((tab) => byId(`tab-${tab}`) === event.target);
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
  if (next === undefined || at < 0) return;
  event.preventDefault();
  const name = tabs.at(next % tabs.length);
  selectTab(name);
  byId(`tab-${name}`).focus();
}

function takeExample() {
  const chosen = examples[byId("example").value];
  if (chosen === undefined) return;
  const mapping = chosen.mappings !== undefined;
  selectTab(mapping ? "mappings" : "manifest");
  write(mapping ? { ...state(), mappings: chosen.mappings } : { ...state(), namespace: undefined, target: "", ...chosen });
}

function offerExamples() {
  const groups = Map.groupBy(examples.entries(), ([, each]) => each.group);
  for (const [group, entries] of groups) {
    const made = element("optgroup", { label: group });
    made.append(...entries.map(([at, { name }]) => new Option(name.replace(/^\d+-/, "").replaceAll("-", " "), at)));
    byId("example").append(made);
  }
}

async function start() {
  const { examples: found, keys } = await ask("start");
  examples = found;
  offerExamples();
  byId("keys").append(...keys.flatMap(({ name, place, values, purpose }) => [
    element("dt", {}, name), element("dd", {}, `${place}: ${purpose}; ${values.join(", ")}`),
  ]));
  if (!(await restore())) {
    byId("example").value = examples.findIndex(({ name }) => name.includes("vcuda-to-nvidia"));
    takeExample();
  }
}

selectTab("manifest");
for (const tab of TABS) {
  byId(tab).addEventListener("input", () => { byId("example").value = ""; paint(); later(); });
  byId(tab).addEventListener("scroll", paint);
  new ResizeObserver(paint).observe(byId(tab));
  byId(`tab-${tab}`).addEventListener("click", () => selectTab(tab));
}
document.querySelector("[role=tablist]").addEventListener("keydown", moveTab);
byId("target").addEventListener("change", update);
byId("example").addEventListener("change", takeExample);
byId("share").addEventListener("click", share);
addEventListener("hashchange", restore);
start().catch((error) => report(`No answer: ${error.message}`, true));
