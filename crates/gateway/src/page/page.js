"use strict";
// All requests have relative addresses: below /person/NAME/ they are for one group. Texts of documents enter
// the page as text only, never as HTML.

const element = (id) => document.getElementById(id);
const TOKEN = "millrace-token";
const PAGE = 20;
let group = null; // { name } or { number }
let query = null; // the last one sent
let groupsAfter = null;

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function say(text, bad = false) {
  element("status").textContent = text;
  element("status").className = bad ? "bad" : "";
}

async function ask(path, body) {
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = "Bearer " + token;
  if (body) headers["content-type"] = "application/json";
  const options = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(path, options);
  if (answer.status === 401) {
    element("sign-in").hidden = false;
    element("sign-out").hidden = true;
    element("token").focus();
  }
  const value = await answer.json().catch(() => ({}));
  const errors = (value.root && value.root.errors) || [];
  if (!answer.ok || errors.length > 0) {
    const message = value.message || errors.map((error) => error.message || error.summary).join("; ");
    throw new Error(message || "the server answered with status " + answer.status);
  }
  return value;
}

const shown = (of) => (of.name !== undefined ? of.name : "number " + of.number);
const size = (bytes) => {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit += 1) bytes /= 1000;
  return (unit === 0 ? bytes : bytes.toPrecision(3)) + " " + units[unit];
};

async function listGroups() {
  const rest = groupsAfter ? "&continuation=" + encodeURIComponent(groupsAfter) : "";
  const page = await ask("group/v1/?count=50" + rest);
  for (const found of page.groups) {
    const button = make("button", shown(found), { type: "button" });
    const when = found.lastWrite ? ", " + new Date(found.lastWrite / 1000).toLocaleString() : "";
    button.append(make("small", found.documents + " documents, " + size(found.bytes) + when));
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

async function listSchemas() {
  // Callers of one group may not ask for this; they search in all types.
  const status = await ask("ApplicationStatus").catch(() => ({}));
  for (const name of (status.application && status.application.schemas) || []) {
    element("schema").append(make("option", name, { value: name }));
  }
}

function open(found) {
  group = found.name !== undefined ? { name: found.name } : { number: found.number };
  element("where").textContent = "in " + shown(group);
  for (const button of element("groups").querySelectorAll("button")) {
    button.setAttribute("aria-current", String(button.dataset.group === shown(group)));
  }
  search();
}

function compose() {
  const words = element("words").value.trim();
  const type = element("schema").value;
  const order = element("order").value.trim();
  const from = type || "sources *";
  const condition = words ? "userInput(@words)" : "true";
  const sent = { yql: "select * from " + from + " where " + condition + (order ? " order by " + order : "") };
  if (words) sent.words = words;
  if (group.name !== undefined) sent["streaming.groupname"] = group.name;
  else sent["streaming.userid"] = String(group.number);
  return { ...sent, hits: PAGE, offset: 0, "presentation.timing": true };
}

function quoted(text) {
  return "'" + text.replaceAll("'", "'\\''") + "'";
}

function showQuery() {
  const url = new URL("search/", document.baseURI).href;
  const credential = sessionStorage.getItem(TOKEN) ? ' -H "Authorization: Bearer $MILLRACE_TOKEN"' : "";
  element("yql").textContent = query.yql;
  element("curl").textContent = "curl" + credential + " -H 'Content-Type: application/json' -d " +
    quoted(JSON.stringify(query)) + " " + quoted(url);
  element("query").hidden = false;
}

async function search() {
  if (!group) return say("Choose a group first.", true);
  query = compose();
  element("results").replaceChildren();
  await send();
}

async function send() {
  say("Searching…");
  showQuery();
  const of = query;
  const began = performance.now();
  try {
    const { root, timing } = await ask("search/", of);
    if (of !== query) return;
    const hits = (root.children || []).filter((hit) => hit.fields);
    hits.forEach((hit) => element("results").append(itemOf(hit)));
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

// Words that match are between <hi> and </hi>, where the schema says so.
function snippet(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const cut = text.length > 400 ? text.slice(0, 400) + "…" : text;
  const made = make("dd");
  cut.split(/<hi>(.*?)<\/hi>/).forEach((part, at) => made.append(at % 2 ? make("mark", part) : part));
  return made;
}

function itemOf(hit) {
  const fields = Object.entries(hit.fields).filter(
    ([name]) => !["sddocname", "documentid", "matchfeatures", "summaryfeatures"].includes(name));
  const id = hit.fields.documentid || hit.id;
  const first = fields.find(([, value]) => typeof value === "string" && value);
  const item = make("li");
  const title = make("button", first ? String(first[1]).replace(/<\/?hi>/g, "").slice(0, 120) : id,
    { type: "button", class: "title", "aria-expanded": "false" });
  const list = make("dl");
  for (const [name, value] of fields.slice(0, 8)) list.append(make("dt", name), snippet(value));
  const whole = make("pre", undefined, { tabindex: "0" });
  whole.hidden = true;
  title.addEventListener("click", () => toggle(title, whole, id));
  const source = [hit.fields.sddocname, id, "relevance " + hit.relevance];
  item.append(title, make("small", source.filter(Boolean).join(" · ")), list, whole);
  return item;
}

async function toggle(title, whole, id) {
  whole.hidden = !whole.hidden;
  title.setAttribute("aria-expanded", String(!whole.hidden));
  if (whole.hidden || whole.textContent) return;
  try {
    whole.textContent = JSON.stringify(await ask(pathOf(id)), null, 2);
  } catch (error) {
    whole.textContent = error.message;
  }
}

// id:NAMESPACE:TYPE:g=GROUP:NAME, and the name may have colons.
function pathOf(id) {
  const [, namespace, type, part, ...rest] = id.split(":");
  const parts = [namespace, type];
  if (part.startsWith("g=")) parts.push("group", part.slice(2));
  else if (part.startsWith("n=")) parts.push("number", part.slice(2));
  else parts.push("docid");
  return "document/v1/" + [...parts, rest.join(":")].map(encodeURIComponent).join("/");
}

function begin() {
  const signedIn = sessionStorage.getItem(TOKEN) !== null;
  element("sign-in").hidden = true;
  element("sign-out").hidden = !signedIn;
  element("groups").replaceChildren();
  element("schema").replaceChildren(make("option", "all", { value: "" }));
  groupsAfter = null;
  say("");
  listGroups().catch((error) => say(error.message, true));
  listSchemas();
}

function submits(id, act) {
  element(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
}

submits("sign-in", () => {
  sessionStorage.setItem(TOKEN, element("token").value.trim());
  element("token").value = "";
  begin();
});
submits("search", search);
submits("other-group", () => element("group").value && open({ name: element("group").value }));
element("sign-out").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  location.reload();
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
document.addEventListener("keydown", (event) => {
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
});
begin();
