// Elements of the page, and requests to the server.
//
// All requests have relative addresses: below /person/NAME/ they are for one group. Texts of documents enter
// the page as text only, never as HTML.

import { parseExactly } from "./exact.js";

const TOKEN = "millrace-token";

export const element = (id) => document.getElementById(id);

export function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export function say(text, bad = false) {
  element("status").textContent = text;
  element("status").className = bad ? "bad" : "";
}

// Replaces the options of a select, and keeps its choice where the new ones have it.
export function choices(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => make("option", text, { value })));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

export function table(caption, head, rows) {
  const made = make("table");
  made.append(make("caption", caption));
  const line = (cells, tag) => {
    const row = make("tr");
    cells.forEach((cell) => row.append(cell instanceof Node ? cell : make(tag, cell)));
    return row;
  };
  const top = make("thead");
  top.append(line(head, "th"));
  const body = make("tbody");
  body.append(...rows.map((cells) => line(cells, "td")));
  made.append(top, body);
  const wide = make("div", undefined, { class: "wide", tabindex: "0" });
  wide.append(made);
  return wide;
}

export function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; count >= 1000 && unit < units.length - 1; unit += 1) count /= 1000;
  return (unit === 0 ? count : count.toPrecision(3)) + " " + units[unit];
}

export const token = () => sessionStorage.getItem(TOKEN);
export const signIn = (value) => sessionStorage.setItem(TOKEN, value);
export const signOut = () => sessionStorage.removeItem(TOKEN);

// Sends a request and returns its JSON, with rounded numbers. An answer that reports a fault is thrown, with its
// status.
export const ask = (path, body) => answered(path, body, JSON.parse);

// The same without a loss: integers that numbers do not have are BigInts. For what has ids, groups or documents.
export const askExactly = (path, body) => answered(path, body, parseExactly);

async function answered(path, body, parse) {
  const headers = { accept: "application/json" };
  if (token()) headers.authorization = "Bearer " + token();
  if (body) headers["content-type"] = "application/json";
  const options = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(path, options);
  if (answer.status === 401) {
    element("sign-in").hidden = false;
    element("sign-out").hidden = true;
    element("token").focus();
  }
  const value = await answer.text().then(parse).catch(() => ({}));
  const errors = (value.root && value.root.errors) || [];
  if (!answer.ok || errors.length > 0) {
    const message = value.message || errors.map((error) => error.message || error.summary).join("; ");
    const fault = new Error(message || "the server answered with status " + answer.status);
    throw Object.assign(fault, { status: answer.status });
  }
  return value;
}
