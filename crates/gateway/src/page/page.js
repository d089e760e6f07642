// The page: views, and signing in.

import { showApplication } from "./application.js";
import { ask, element, say, signIn, signOut, token } from "./dom.js";
import { watch } from "./node.js";
import { begin, connect } from "./search.js";

const tabs = [...element("tabs").children];

function show(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    element(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  watch(tab.id === "tab-node");
}

function start() {
  element("sign-in").hidden = true;
  element("sign-out").hidden = token() === null;
  say("");
  ask("page/application").then((application) => {
    showApplication(application);
    return begin(application);
  }).catch((error) => say(error.message, true));
}

function submits(id, act) {
  element(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
}

submits("sign-in", () => {
  signIn(element("token").value.trim());
  element("token").value = "";
  start();
});
element("sign-out").addEventListener("click", () => {
  signOut();
  location.reload();
});
tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[event.key];
    if (!step) return;
    const next = tabs[(at + step) % tabs.length];
    show(next);
    next.focus();
  });
});
connect(submits);
start();
