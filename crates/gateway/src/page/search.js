// The view of one group's documents: a query, its hits, counts and cost.

import { askExactly, bytes, choices, element, make, say, token } from "./dom.js";
import { textOf } from "./exact.js";
import { canCount, canFilter, canOrder, comparisons, condition, fieldsOf, meanings, profilesOf }
  from "./fields.js";

const PAGE = 20;
const COUNTED = 4; // fields that are counted unless the user chooses others
let application = { schemas: {}, embedders: [] };
let group = null; // { name } or { number }, which may be a BigInt
let query = null; // the last one sent
let groupsAfter = null;

const shown = (of) => (of.name !== undefined ? of.name : "number " + of.number);
const fields = () => fieldsOf(application.schemas, element("schema").value);

async function listGroups() {
  const rest = groupsAfter ? "&continuation=" + encodeURIComponent(groupsAfter) : "";
  const page = await askExactly("group/v1/?count=50" + rest);
  for (const found of page.groups) {
    const button = make("button", shown(found), { type: "button" });
    const when = found.lastWrite ? ", " + new Date(Number(found.lastWrite) / 1000).toLocaleString() : "";
    button.append(make("small", found.documents + " documents, " + bytes(found.bytes) + when));
    button.addEventListener("click", () => open(found));
    const item = make("li");
    item.append(button);
    element("groups").append(item);
    button.dataset.group = shown(found);
  }
  groupsAfter = page.continuation || null;
  element("more-groups").hidden = !groupsAfter;
  if (page.groups.length === 1 && !groupsAfter && !group) open(page.groups[0]);
}

function open(found) {
  group = found.name !== undefined ? { name: found.name } : { number: found.number };
  element("where").textContent = "in " + shown(group);
  if (matchMedia("(max-width: 45rem)").matches) element("group-list").open = false;
  for (const button of element("groups").querySelectorAll("button")) {
    button.setAttribute("aria-current", String(button.dataset.group === shown(group)));
  }
  search();
}

// Offers what the chosen type has.
function offer() {
  const type = element("schema").value;
  const orders = fields().filter(canOrder).flatMap(({ name }) =>
    [[name + " desc", name + ", largest first"], [name + " asc", name + ", smallest first"]]);
  choices(element("order"), [["", "relevance"], ...orders]);
  choices(element("ranking"), [["", "default"], ...profilesOf(application.schemas, type)
    .filter(({ name }) => name !== "default").map(({ name }) => [name, name])]);
  const ways = meanings(application, type).flatMap((meaning) => {
    const of = meaning.field + " (" + meaning.profile + ")";
    const value = JSON.stringify(meaning);
    return [["meaning " + value, "meaning of " + of], ["both " + value, "words or meaning of " + of]];
  });
  choices(element("by"), [["words", "words"], ...ways]);
  element("filters").replaceChildren();
  const counts = element("counts");
  counts.replaceChildren(make("legend", "Counts of"));
  fields().filter(canCount).forEach(({ name }, at) => {
    const box = make("input", undefined, { type: "checkbox", value: name, id: "count-" + name });
    box.checked = at < COUNTED;
    counts.append(box, make("label", name, { for: "count-" + name }));
  });
}

function addFilter(name, comparison, value) {
  const all = fields().filter(canFilter);
  if (all.length === 0) return say("No field can be filtered.", true);
  const item = make("li", undefined, { class: "row" });
  const field = make("select", undefined, { "aria-label": "Field", name: "field" });
  choices(field, all.map((one) => [one.name, one.name]));
  const compare = make("select", undefined, { "aria-label": "Comparison", name: "comparison" });
  const wanted = make("input", undefined, { "aria-label": "Value", name: "value", autocomplete: "off" });
  const remove = make("button", "Remove", { type: "button" });
  const fit = () => choices(compare, comparisons(all.find((one) => one.name === field.value)));
  if (name !== undefined) field.value = name;
  fit();
  if (comparison !== undefined) compare.value = comparison;
  if (value !== undefined) wanted.value = value;
  field.addEventListener("change", fit);
  remove.addEventListener("click", () => {
    item.remove();
    element("add-filter").focus();
  });
  item.append(field, compare, wanted, remove);
  element("filters").append(item);
  return wanted;
}

function filters() {
  const known = new Map(fields().map((field) => [field.name, field]));
  return [...element("filters").children].map((item) => ({
    field: known.get(item.querySelector("[name=field]").value),
    comparison: item.querySelector("[name=comparison]").value,
    value: item.querySelector("[name=value]").value,
  }));
}

function compose() {
  const words = element("words").value.trim();
  const type = element("schema").value;
  const order = element("order").value;
  const [way, ...meaning] = element("by").value.split(/ (.*)/s);
  const sent = {};
  const conditions = [];
  if (words) {
    sent.words = words;
    const parts = way === "meaning" ? [] : ["userInput(@words)"];
    if (way !== "words") {
      const { field, input, profile } = JSON.parse(meaning[0]);
      parts.push("({targetHits: 100}nearestNeighbor(" + field + ", " + input + "))");
      sent["input.query(" + input + ")"] = "embed(@words)";
      sent.ranking = profile;
    }
    conditions.push(parts.length > 1 ? "(" + parts.join(" or ") + ")" : parts[0]);
  }
  for (const filter of filters()) conditions.push(condition(filter, sent));
  if (conditions.every((one) => one.startsWith("!"))) conditions.unshift("true");
  if (element("ranking").value) sent.ranking = element("ranking").value;
  const counted = [...element("counts").querySelectorAll("input:checked")].map((box) => box.value);
  const groupings = counted.map((name) =>
    "all(group(" + name + ") max(8) order(-count()) each(output(count())))");
  const yql = "select * from " + (type || "sources *") + " where " + conditions.join(" and ") +
    (order ? " order by " + order : "") +
    (groupings.length > 0 ? " | all(" + groupings.join(" ") + ")" : "");
  const of = group.name !== undefined ? { "streaming.groupname": group.name }
    : { "streaming.userid": String(group.number) };
  return { yql, ...sent, ...of, hits: PAGE, offset: 0, "presentation.timing": true,
    "trace.level": 3, "trace.timestamps": true };
}

function quoted(text) {
  return "'" + text.replaceAll("'", "'\\''") + "'";
}

function showQuery() {
  const url = new URL("search/", document.baseURI).href;
  const credential = token() ? ' -H "Authorization: Bearer $MILLRACE_TOKEN"' : "";
  element("yql").textContent = query.yql;
  element("curl").textContent = "curl" + credential + " -H 'Content-Type: application/json' -d " +
    quoted(JSON.stringify(query)) + " " + quoted(url);
  element("query").hidden = false;
}

async function search() {
  if (!group) return say("Choose a group first.", true);
  try {
    query = compose();
  } catch (error) {
    return say(error.message, true);
  }
  element("results").replaceChildren();
  await send();
}

async function send() {
  say("Searching…");
  showQuery();
  const of = query;
  const began = performance.now();
  try {
    const { root, timing, trace } = await askExactly("search/", of);
    if (of !== query) return;
    const children = root.children || [];
    const hits = children.filter((hit) => hit.fields);
    hits.forEach((hit) => element("results").append(itemOf(hit)));
    if (of.offset === 0) showCounts(children.filter((one) => one.id.startsWith("group:root")));
    showTrace(trace);
    const total = (root.fields && root.fields.totalCount) || 0;
    const coverage = root.coverage || {};
    const parts = [total + (total === 1 ? " document matches" : " documents match")];
    if (coverage.documents !== undefined) parts.push(coverage.documents + " were searched");
    if (timing) parts.push((timing.searchtime * 1000).toFixed(1) + " ms in the server");
    parts.push((performance.now() - began).toFixed(0) + " ms in all");
    if (coverage.coverage < 100) parts.push("coverage " + coverage.coverage + " %");
    say(parts.join(" · "));
    element("more-hits").hidden = of.offset + hits.length >= total || hits.length === 0;
  } catch (error) {
    if (of === query) say(error.message, true);
  }
}

// Counts of a field whose values are all different say nothing; they are left out.
function showCounts(roots) {
  const facets = element("facets");
  facets.replaceChildren();
  for (const list of roots.flatMap((root) => root.children || [])) {
    const groups = (list.children || []).map((one) => [one.value, one.fields["count()"]]);
    if (!groups.some(([, count]) => count > 1)) continue;
    const items = make("ul");
    for (const [value, count] of groups) {
      const button = make("button", String(value) || "(empty)", { type: "button" });
      button.append(make("small", count));
      button.addEventListener("click", () => {
        element("options").open = true;
        addFilter(list.label, undefined, String(value));
        search();
      });
      const item = make("li");
      item.append(button);
      items.append(item);
    }
    facets.append(make("h3", list.label), items);
  }
  facets.hidden = facets.children.length === 0;
}

const UNITS = { ns: 1e-6, "µs": 1e-3, ms: 1, s: 1000 };

// Steps of a trace: `{ text, ms }`, where a step says at its end what it took; depth by depth.
function steps(children, depth = 0) {
  return (children || []).flatMap((child) => {
    const text = (child.message || "").trim();
    const took = /^(.*?)(?: in|:) ([\d.]+)(ns|µs|ms|s)$/s.exec(text);
    const own = took ? { text: took[1], ms: Number(took[2]) * UNITS[took[3]], depth } : { text, depth };
    return [own, ...steps(child.children, depth + 1)];
  });
}

function showTrace(trace) {
  const all = steps(trace && trace.children).filter(({ text }) => text);
  const longest = Math.max(...all.map(({ ms }) => ms || 0), 1e-6);
  const rows = all.map(({ text, ms, depth }) => {
    const row = make("tr");
    const name = make("td", text);
    name.style.setProperty("--depth", depth);
    const cost = make("td", ms === undefined ? "" : ms.toFixed(3) + " ms");
    if (ms !== undefined) {
      const bar = make("meter", undefined, { min: 0, max: longest, value: ms, "aria-hidden": "true" });
      cost.prepend(bar);
    }
    row.append(name, cost);
    return row;
  });
  element("trace").querySelector("tbody").replaceChildren(...rows);
}

const isPlain = (value) => ["string", "number", "bigint", "boolean"].includes(typeof value);

// Words that match are between <hi> and </hi>, and <sep /> is between parts of a text, where the schema says so.
function snippet(name, value) {
  const list = Array.isArray(value) && value.every(isPlain) ? value.join(", ") : value;
  const text = (isPlain(list) ? String(list) : textOf(list)).replaceAll("<sep />", " … ");
  const cut = text.length > 400 ? text.slice(0, 400) + "…" : text;
  const made = make("dd");
  cut.split(/<hi>(.*?)<\/hi>/s).forEach((part, at) => made.append(at % 2 ? make("mark", part) : part));
  const date = dateOf(name, value);
  if (date) made.append(make("small", date.toLocaleString()));
  return made;
}

// A number is a date where the field's name says so: seconds or milliseconds since 1970.
function dateOf(name, value) {
  if (typeof value !== "number" || !/date|time|created|modified|updated|received|sent/i.test(name)) return null;
  if (value > 1e8 && value < 1e10) return new Date(value * 1000);
  return value > 1e11 && value < 1e13 ? new Date(value) : null;
}

function itemOf(hit) {
  const values = Object.entries(hit.fields).filter(
    ([name]) => !["sddocname", "documentid", "matchfeatures", "summaryfeatures"].includes(name));
  const id = hit.fields.documentid || hit.id;
  const texts = values.filter(([, value]) => typeof value === "string" && value);
  const first = texts.find(([name]) => /^(title|subject|name)$/i.test(name)) || texts[0];
  const item = make("li");
  const title = make("button", first ? first[1].replace(/<\/?hi>|<sep \/>/g, "").slice(0, 120) : id,
    { type: "button", class: "title", "aria-expanded": "false" });
  const list = make("dl");
  for (const [name, value] of values.filter((one) => one !== first).slice(0, 8)) {
    list.append(make("dt", name), snippet(name, value));
  }
  const whole = make("pre", undefined, { tabindex: "0" });
  whole.hidden = true;
  title.addEventListener("click", () => toggle(title, whole, id));
  const source = [hit.fields.sddocname, id, "relevance " + Number(Number(hit.relevance).toPrecision(5))];
  item.append(title, make("small", source.filter(Boolean).join(" · ")), list, whole);
  return item;
}

async function toggle(title, whole, id) {
  whole.hidden = !whole.hidden;
  title.setAttribute("aria-expanded", String(!whole.hidden));
  if (whole.hidden || whole.textContent) return;
  try {
    whole.textContent = textOf(await documentOf(id), 2);
  } catch (error) {
    whole.textContent = error.message;
  }
}

// A part of a path that the browser would resolve before it asks, percent-encoded or not.
const isResolved = (part) => part === "." || part === "..";

// id:NAMESPACE:TYPE:g=GROUP:NAME, and the name may have colons.
async function documentOf(id) {
  const [, namespace, type, part, ...rest] = id.split(":");
  const parts = [namespace, type];
  if (part.startsWith("g=")) parts.push("group", part.slice(2));
  else if (part.startsWith("n=")) parts.push("number", part.slice(2));
  else parts.push("docid");
  parts.push(rest.join(":"));
  if (!parts.some(isResolved)) return askExactly("document/v1/" + parts.map(encodeURIComponent).join("/"));
  if (isResolved(namespace)) {
    throw new Error("A browser cannot ask for a document of the namespace “" + namespace +
      "”. Get it from the command line: millrace get '" + id.replaceAll("'", "'\\''") + "'");
  }
  const literal = '"' + id.replace(/[\\"]/g, "\\$&") + '"';
  const visited = await askExactly("document/v1/" + encodeURIComponent(namespace) + "/" + type +
    "/docid/?wantedDocumentCount=1&selection=" + encodeURIComponent("id == " + literal));
  if (visited.documents.length === 0) throw new Error("The document is not there any more.");
  return visited.documents[0];
}

// Shows the groups and fields that the credential may see.
export async function begin(described) {
  application = described;
  const names = Object.keys(application.schemas);
  choices(element("schema"), [["", "all"], ...names.map((name) => [name, name])]);
  if (names.length === 1) element("schema").value = names[0];
  offer();
  element("groups").replaceChildren();
  groupsAfter = null;
  await listGroups();
}

// Connects the view's controls, once.
export function connect(submits) {
  submits("search", search);
  submits("other-group", () => element("group").value && open({ name: element("group").value }));
  element("schema").addEventListener("change", offer);
  element("add-filter").addEventListener("click", () => {
    const value = addFilter();
    if (value) value.focus();
  });
  element("more-groups").addEventListener("click",
    () => listGroups().catch((error) => say(error.message, true)));
  element("more-hits").addEventListener("click", () => {
    query = { ...query, offset: query.offset + PAGE };
    send();
  });
  document.addEventListener("click", (event) => {
    const source = event.target.dataset && event.target.dataset.copy;
    if (!source) return;
    const text = element(source).textContent;
    const copied = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject();
    copied.then(() => say("Copied."), () => getSelection().selectAllChildren(element(source)));
  });
  document.addEventListener("keydown", keys);
}

function keys(event) {
  const writes = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    element("words").focus();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const titles = [...element("results").querySelectorAll(".title")];
  const at = titles.indexOf(event.target);
  if (!step || titles.length === 0 || (at < 0 && event.target !== element("words"))) return;
  event.preventDefault();
  (titles[at + step] || element("words")).focus();
}
