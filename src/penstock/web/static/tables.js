// Figures and tables: the numbers behind the drawing.

import { $, element, keep, put, sheet } from "./dom.js";
import { GUARANTEES } from "./flow.js";
import * as format from "./format.js";

const SEVERITY = { critical: "■", warning: "▲" };

export function drawAlerts(alerts, now_ms) {
  $("alerts-part").hidden = alerts.length === 0;
  keep($("alerts"), alerts, (alert) => alert.name + alert.reason.split(" ").slice(0, 2).join(" "),
    () => element("li", {}, element("span", { class: "sign", "aria-hidden": "true" }), element("b"), element("span", { class: "why" }), element("span", { class: "since" })),
    (node, alert) => {
      node.dataset.severity = alert.severity;
      const [sign, name, why, since] = node.children;
      put(sign, SEVERITY[alert.severity]);
      put(name, alert.name.replace(/(?<=[a-z])(?=[A-Z])/g, " "));
      put(why, alert.reason);
      put(since, `since ${format.clock(alert.since_ms)}, ${format.time(Math.max(0, now_ms - alert.since_ms))}`);
    });
}

export function drawFigures(glance, objective_ms) {
  const { quantiles: q, lag, batch, totals, audit } = glance;
  const figures = [
    ["Latency p99", format.time(q?.p99), q ? `p50 ${format.time(q.p50)} · max ${format.time(q.max)}` : "no latencies yet",
      q && objective_ms && q.p99 > objective_ms ? "warning" : ""],
    ["Oldest that waits", format.time(lag?.age_ms), lag ? `${format.count(lag.records)} records` : "topic not seen yet",
      lag?.age_ms > 120_000 ? "warning" : ""],
    ["Rate in", format.rate(glance.rate_in_eps), "by the topic's ends", ""],
    ["Rate out", format.rate(glance.rate_out_eps), `${format.short(totals.records)} records so far`, ""],
    ["Last batch", format.time(batch?.total_ms), batch ? `no. ${format.count(batch.number)}, ${format.short(batch.records)} records` : "none yet", ""],
    ["Set aside", format.fine(aside(glance.recent)), `${format.short(totals.rejected + totals.late + totals.refused)} records so far`, ""],
    ["Lost", audit ? format.count(audit.lost) : format.NONE, audit ? `audited at ${format.clock(audit.at_ms)}` : "no audit yet",
      audit?.lost ? "critical" : audit ? "good" : ""],
    ["Duplicated", audit ? format.count(audit.duplicated) : format.NONE, audit ? `${format.count(audit.batches)} batches compared` : "penstock audit --every",
      audit?.duplicated ? "critical" : audit ? "good" : ""],
  ];
  keep($("figures"), figures, (figure) => figure[0],
    (figure) => element("div", {}, element("dt", {}, figure[0]), element("dd", { class: "big" }), element("dd", { class: "small" })),
    (node, [, value, small, mark]) => {
      node.dataset.mark = mark;
      put(node.children[1], value);
      put(node.children[2], small);
    });
}

const aside = (totals) => (totals.records ? (totals.rejected + totals.late + totals.refused) / totals.records : null);

export function drawSinks(glance) {
  const found = new Map((glance.audit?.sinks ?? []).map((sink) => [sink.name, sink]));
  put($("sinks-said"), glance.sinks.length === 0 ? "Sinks appear with the first batch." : "latency from event to readable in this sink, over the last seconds");
  sheet($("sinks"), "Sinks", [
    { name: "sink", text: (s) => s.name },
    { name: "guarantee", text: (s) => (s.facts ? GUARANTEES[s.facts.guarantee] : "not known"), mark: (s) => (s.facts ? "" : "dim") },
    { name: "rows", text: (s) => s.facts?.rows.join(", ") ?? "" },
    { name: "written", kind: "n", text: (s) => format.count(s.rows) },
    { name: "rate", kind: "n", text: (s) => format.rate(s.rate_eps) },
    { name: "write", kind: "n", text: (s) => format.time(s.write_ms) },
    { name: "worst", kind: "n", text: (s) => format.time(s.write_max_ms) },
    { name: "p50", kind: "n", text: (s) => format.time(s.quantiles?.p50) },
    { name: "p99", kind: "n", text: (s) => format.time(s.quantiles?.p99) },
    { name: "replays", kind: "n", text: (s) => format.count(s.replays) },
    { name: "refused", kind: "n", text: (s) => format.count(s.refused), mark: (s) => (s.refused ? "warning" : "") },
    { name: "lost", kind: "n", text: (s) => audited(found.get(s.name)?.lost), mark: (s) => judged(found.get(s.name)?.lost) },
    { name: "duplicated", kind: "n", text: (s) => audited(found.get(s.name)?.duplicated), mark: (s) => judged(found.get(s.name)?.duplicated) },
  ], glance.sinks, (s) => `${s.query} ${s.name}`);
}

const audited = (count) => (count == null ? format.NONE : format.count(count));
const judged = (count) => (count == null ? "dim" : count ? "critical" : "good");

export function drawPartitions(glance) {
  const rows = glance.lag?.partitions ?? [];
  put($("partitions-said"), rows.length ? `worst first, ${format.count(glance.lag.records)} records wait in ${rows.length}` : "No look at the topic's ends yet: is Kafka away?");
  const most = Math.max(1, ...rows.map((row) => row.lag));
  sheet($("partitions"), "Partitions, worst first", [
    { name: "partition", text: (p) => String(p.partition) },
    { name: "lag", kind: "n", text: (p) => format.count(p.lag) },
    { name: "of the worst", text: (p) => "▇".repeat(Math.round((12 * p.lag) / most)) || "·", kind: "bars" },
    { name: "oldest", kind: "n", text: (p) => (p.lag ? format.time(p.age_ms) : format.NONE) },
    { name: "in", kind: "n", text: (p) => format.rate(p.rate_eps) },
    { name: "end", kind: "n", text: (p) => format.count(p.end) },
  ], rows, (p) => String(p.partition));
}

export function drawSpans(glance) {
  const { totals: t, state, batch } = glance;
  const lookups = Object.entries(glance.lookups).map(([name, version]) => `${name} ${version.slice(0, 8)}${name in glance.stale_since_ms ? " (stale)" : ""}`);
  const pairs = [
    ["decoded", format.count(t.decoded)], ["rejected", format.count(t.rejected)], ["late", format.count(t.late)],
    ["duplicates dropped", format.count(t.duplicates)], ["refused by a sink", format.count(t.refused)],
    ["open", t.opened ? format.count(t.open) : format.NONE], ["closed", format.count(t.closed)], ["corrected", format.count(t.corrected)], ["merged", format.count(t.merged)],
    ["state in memory", format.bytes(state?.memory_bytes)], ["on disk", format.bytes(state?.disk_bytes)],
    ["keys changed", state ? `${format.count(state.rows_updated)} a batch` : format.NONE],
    ["checkpoint", state ? `${format.bytes(state.checkpoint_bytes)} a batch` : format.NONE], ["commit", format.time(state?.commit_ms)],
    ["clock of events", state?.watermark_ms ? `${format.time(Math.max(0, glance.now_ms - state.watermark_ms))} behind` : format.NONE],
    ["lookups", lookups.join(", ") || "none"],
  ];
  put($("spans-said"), state ? "" : batch ? "State is told by Spark's own samples; none has come yet." : "Counts begin with the first batch.");
  keep($("spans"), pairs, (pair) => pair[0], (pair) => element("div", {}, element("dt", {}, pair[0]), element("dd")),
    (node, pair) => put(node.children[1], pair[1]));
}

export function drawMachine(glance) {
  const { processes, health } = glance;
  put($("machine-said"), processes.length || health ? "" : "No sample of processes or brokers yet.");
  sheet($("processes"), "Processes", [
    { name: "process", text: (p) => p.name },
    { name: "cores", kind: "n", text: (p) => p.cpu_cores.toFixed(2) },
    { name: "resident", kind: "n", text: (p) => format.bytes(p.rss_bytes) },
    { name: "heap", kind: "n", text: (p) => (p.heap_max_bytes ? `${format.bytes(p.heap_used_bytes)} of ${format.bytes(p.heap_max_bytes)}` : format.NONE) },
    { name: "gc", kind: "n", text: (p) => format.percent(p.gc_share), mark: (p) => (p.gc_share > 0.1 ? "warning" : "") },
  ], processes, (p) => p.name);
  sheet($("brokers"), "Brokers", [
    { name: "broker", text: (b) => `${b.id}${b.id === health.controller ? " (controller)" : ""}` },
    { name: "state", text: (b) => (b.alive ? "● up" : "■ gone"), mark: (b) => (b.alive ? "good" : "critical") },
    { name: "in", kind: "n", text: (b) => (b.bytes_in_per_s == null ? format.NONE : `${format.bytes(b.bytes_in_per_s)}/s`) },
    { name: "out", kind: "n", text: (b) => (b.bytes_out_per_s == null ? format.NONE : `${format.bytes(b.bytes_out_per_s)}/s`) },
    { name: "p99", kind: "n", text: (b) => format.time(b.produce_p99_ms) },
    { name: "disk", kind: "n", text: (b) => format.bytes(b.disk_bytes) },
  ], health?.brokers ?? [], (b) => String(b.id));
}

const SIGNS = { start: "○", ready: "●", away: "■", back: "●", failed: "▲", fatal: "▲", stop: "□", news: "·" };

export function drawMarks(marks) {
  const newest = marks.slice(-60).reverse();
  keep($("marks"), newest, (mark) => `${mark.at_ms} ${mark.text}`,
    (mark) => element("li", { "data-kind": mark.kind }, element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[mark.kind] ?? "·"), element("time", {}, format.clock(mark.at_ms)), element("span", {}, mark.text)),
    () => {});
}
