// The view of the node: rates and latencies as they change, sizes, and the cluster.

import { ask, bytes, element, make, table } from "./dom.js";

const PAUSE_MS = 2000;
const KEPT = 60; // values of a curve
const curves = new Map();
let before = null; // the last measurement: { at, values }
let timer = null;

const count = (value) => Math.round(value).toLocaleString();
const per = (value) => (value < 100 ? value.toPrecision(2) : count(value)) + "/s";
const ms = (value) => (value === null ? "–" : value.toPrecision(3) + " ms");

// Figures of the view: name, and the value of a measurement (the sum of the metric over its dimensions) with
// the change since the last one.
const FIGURES = [
  ["Queries", ({ rate }) => rate("queries"), per],
  ["Time of a query", ({ mean }) => mean("query_latency"), ms],
  ["Failed queries", ({ rate }) => rate("failed_queries"), per],
  ["Writes", ({ rate }) => rate("httpapi_num_puts") + rate("httpapi_num_updates") + rate("httpapi_num_removes"),
    per],
  ["Time of a document operation", ({ mean }) => mean("httpapi_latency"), ms],
  ["Requests refused", ({ rate }) => rate("jdisc.http.requests.rejected"), per],
  ["Documents", ({ last }) => last("content.proton.documentdb.documents.total"), count],
  ["Bytes on disk", ({ last }) => last("content.proton.documentdb.disk_usage"), bytes],
  ["Disk free", ({ last }) => last("millrace.disk_free"), bytes],
  ["Rows not sealed yet", ({ last }) => last("millrace.store.tail_bytes"), bytes],
  ["Segments", ({ last }) => last("millrace.store.segments"), count],
  ["Seals since the start", ({ total }) => total("millrace.store.seals"), count],
  ["Merges since the start", ({ total }) => total("millrace.store.merges"), count],
  ["Columns in memory", ({ last }) => last("millrace.store.cache_bytes"), bytes],
  ["Reindexing", ({ last }) => last("reindexing.progress") * 100, (done) => done.toFixed(0) + " %"],
];

function measured(answer) {
  const values = new Map();
  for (const metric of answer.metrics.values) {
    const sum = values.get(metric.name) || { count: 0, sum: 0, last: 0 };
    for (const part of ["count", "sum", "last"]) sum[part] += metric.values[part] || 0;
    values.set(metric.name, sum);
  }
  return { at: answer.time, values };
}

function reading(now, then) {
  const of = (measurement, name) => (measurement && measurement.values.get(name)) || { count: 0, sum: 0, last: 0 };
  const seconds = then ? Math.max((now.at - then.at) / 1000, 0.001) : 1;
  const change = (name, part) => (then ? Math.max(of(now, name)[part] - of(then, name)[part], 0) : 0);
  return {
    rate: (name) => change(name, "count") / seconds,
    mean: (name) => (change(name, "count") > 0 ? change(name, "sum") / change(name, "count") : null),
    last: (name) => of(now, name).last,
    total: (name) => of(now, name).count,
  };
}

function curve(values) {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, at) => at + "," + (20 - (18 * value) / most).toFixed(1)).join(" ");
  const drawing = element("curve").content.firstElementChild.cloneNode(true);
  drawing.setAttribute("viewBox", "0 0 " + (KEPT - 1) + " 21");
  drawing.firstElementChild.setAttribute("points", points);
  return drawing;
}

function showFigures(answer) {
  const now = measured(answer);
  const seen = reading(now, before);
  before = now;
  const items = FIGURES.map(([name, value, text]) => {
    const current = value(seen);
    const kept = [...(curves.get(name) || []), current || 0].slice(-KEPT);
    curves.set(name, kept);
    const item = make("div");
    const shown = make("dd", text(current));
    shown.append(curve(kept));
    item.append(make("dt", name), shown);
    return item;
  });
  element("figures").replaceChildren(...items);
}

const WORK = {
  too_few: "with too few replicas", too_many: "with too many replicas", diverged: "with different replicas",
  misplaced: "on the wrong node", unknown: "not known yet",
};

// What is left to do for the buckets of this node, and the transfers that it receives.
function movesView({ ideal, transfers, warnings }) {
  const view = make("section");
  view.append(make("h2", "Moving data"));
  const left = Object.entries(WORK).filter(([kind]) => ideal[kind] > 0);
  view.append(make("p", left.length === 0 ? "All buckets of this node are where they belong."
    : "Buckets " + left.map(([kind, text]) => text + ": " + count(ideal[kind])).join(", ")));
  const rows = transfers.map((transfer) => {
    const done = make("td");
    done.append(make("meter", undefined, { min: 0, max: Math.max(transfer.bytes_total, 1),
      value: transfer.bytes_done, "aria-label": "Received" }),
    bytes(transfer.bytes_done) + " of " + bytes(transfer.bytes_total));
    const eta = transfer.eta_s === null ? "" : Math.ceil(transfer.eta_s) + " s";
    return [transfer.from, transfer.to, count(transfer.buckets), transfer.reason, done,
      bytes(transfer.bytes_per_second) + "/s", eta];
  });
  if (rows.length > 0) {
    view.append(table("Transfers", ["From", "To", "Buckets", "Reason", "Received", "Rate", "Time left"], rows));
  }
  warnings.forEach((warning) => view.append(make("p", warning, { class: "bad" })));
  return view;
}

function clusterView(name, cluster) {
  const view = make("section");
  view.append(make("h2", "Cluster " + name));
  const state = cluster.state.generated;
  const parts = [cluster.alone ? "a single node" : "state " + state.state];
  if (state.reason) parts.push(state.reason);
  if (cluster.leader) parts.push("leader " + cluster.leader);
  view.append(make("p", parts.join(" · ")));
  const nodes = Object.entries(cluster.service.storage.node);
  const rows = nodes.map(([key, node]) => {
    const { metrics = {} } = node;
    const reason = node.state.generated.reason || node.state.user.reason || "";
    const known = (value, text) => (value === undefined ? "" : text(value));
    return [key, node.attributes.name, node.state.generated.state, reason,
      known(metrics["bucket-count"], count), known(metrics["unique-document-count"], count),
      known(metrics["unique-document-total-size"], bytes)];
  });
  view.append(table("Nodes", ["Key", "Name", "State", "Reason", "Buckets", "Documents", "Bytes"], rows));
  return view;
}

async function measure() {
  const view = element("clusters");
  try {
    showFigures(await ask("state/v1/metrics"));
    const { cluster } = await ask("cluster/v2/?recursive=true");
    const views = Object.entries(cluster || {}).map(([name, one]) => clusterView(name, one));
    const isAlone = Object.values(cluster || {}).some((one) => one.alone);
    const moves = isAlone ? null : await ask("state/v1/cluster");
    if (moves) views.push(movesView(moves));
    view.replaceChildren(...views);
  } catch (error) {
    const text = error.status === 403 ? "This credential may not see the state of the node." : error.message;
    view.replaceChildren(make("p", text, { class: "bad" }));
  }
}

// Measures while the view is seen.
export function watch(seen) {
  clearInterval(timer);
  timer = seen ? setInterval(measure, PAUSE_MS) : null;
  if (seen) measure();
}
