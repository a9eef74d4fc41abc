// The pipeline, drawn: the topic as a reservoir, stages as chambers, pipes as wide as what runs through them.

import * as format from "./format.js";

const NAMES = {
  source: "Source", decode: "Decode + enrich", shuffle: "Shuffle", state: "State", sink: "Sinks",
};
const UNITS = { source: "records", decode: "records", shuffle: "rows", state: "keys" };
const RAMP = [[0.5, "▁", "easy"], [0.75, "▃", "working"], [0.9, "▅", "tight"], [Infinity, "▇", "full"]];
const FULL_AGE_S = 300; // the reservoir is full when the oldest record has waited so long

const em = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/** @param {number|null} busy */
const step = (busy) => RAMP.findIndex(([below]) => (busy ?? 0) < below);

function svg(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text) made.textContent = text;
  return made;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
  }
}

const words = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

/** Pipes of 10 and of 100,000 events a second must both be seen: width goes by the logarithm. */
const bore = (rate, u) => (rate > 0 ? (0.2 + 0.24 * Math.log10(1 + rate)) * u : 0.12 * u);

/** Where everything stands, side by side, or below each other where there is no room. */
function layout(width, stages, sinks, u) {
  const topic = Math.min(12 * u, Math.max(8 * u, width * 0.1));
  const store = Math.min(20 * u, Math.max(12 * u, width * 0.2));
  const gap = Math.max(2 * u, Math.min(6 * u, width * 0.034));
  const stage = Math.min(17 * u, (width - topic - store - gap * (stages + 1)) / stages);
  return stage >= 8.2 * u
    ? across({ width, stages, sinks, u, topic, store, stage, gap: (width - topic - store - stage * stages) / (stages + 1) })
    : down(width, stages, sinks, u);
}

function across({ width, stages, sinks, u, topic, store, stage, gap }) {
  const each = 3.5 * u;
  const tall = Math.max(8.2 * u, sinks * (each + 0.6 * u) - 0.6 * u);
  const box = 7.4 * u;
  const middle = tall / 2;
  const first = middle - box / 2;
  const at = (index) => topic + gap + index * (stage + gap);
  const boxes = Array.from({ length: stages }, (_, index) => ({ x: at(index), y: first, w: stage, h: box }));
  const top = middle - (sinks * (each + 0.6 * u) - 0.6 * u) / 2;
  const stores = Array.from({ length: sinks }, (_, index) => ({ x: width - store, y: top + index * (each + 0.6 * u), w: store, h: each }));
  const line = (from, to) => `M${from} ${middle}H${to}`;
  const pipes = boxes.map((to, index) => line(index ? boxes[index - 1].x + stage : topic, to.x));
  const end = boxes[stages - 1].x + stage;
  const branches = stores.map((to) => {
    const y = to.y + to.h / 2;
    const half = (to.x - end) / 2;
    return `M${end} ${middle}C${end + half} ${middle} ${to.x - half} ${y} ${to.x} ${y}`;
  });
  return { wide: true, width, height: tall + 2 * u, topic: { x: 0, y: first, w: topic, h: box }, boxes, stores, pipes, branches };
}

function down(width, stages, sinks, u) {
  const high = 4.3 * u;
  const gap = 1.3 * u;
  const x = 2.2 * u;
  const at = (index) => index * (high + gap);
  const boxes = Array.from({ length: stages }, (_, index) => ({ x: 0, y: at(index + 1), w: width, h: high }));
  const from = at(stages) + high;
  const stores = Array.from({ length: sinks }, (_, index) => ({ x: 4.2 * u, y: from + gap + index * (high + 0.6 * u), w: width - 4.2 * u, h: high }));
  const pipes = boxes.map((to) => `M${x} ${to.y - gap}V${to.y}`);
  const branches = stores.map((to) => {
    const y = to.y + to.h / 2;
    return `M${x} ${from}V${y - u}Q${x} ${y} ${x + u} ${y}H${to.x}`;
  });
  const height = from + gap + sinks * (high + 0.6 * u);
  return { wide: false, width, height, topic: { x: 0, y: 0, w: width, h: high }, boxes, stores, pipes, branches };
}

export class Flow {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.parent = parent;
    /** @type {Map<string, Lane>} */
    this.lanes = new Map();
    new ResizeObserver(() => this.last && this.draw(this.last)).observe(parent);
  }

  draw(glance) {
    this.last = glance;
    for (const [query, lane] of this.lanes) {
      if (!glance.flows.some((flow) => flow.query === query)) {
        lane.node.remove();
        this.lanes.delete(query);
      }
    }
    for (const flow of glance.flows) {
      if (!this.lanes.has(flow.query)) this.lanes.set(flow.query, new Lane(this.parent));
      this.lanes.get(flow.query).draw(glance, flow, glance.flows.length > 1);
    }
  }
}

/** One query. */
class Lane {
  constructor(parent) {
    this.node = document.createElement("div");
    this.node.className = "lane";
    parent.append(this.node);
    this.key = "";
  }

  draw(glance, flow, named) {
    const names = flow.grouped ? ["source", "decode", "shuffle", "state"] : ["source", "decode"];
    const stages = names.map((name) => flow.stages.find((one) => one.stage === name));
    const sinks = glance.sinks.filter((sink) => sink.query === flow.query);
    const width = this.node.parentElement.clientWidth;
    const u = em();
    if (width < 10 * u) return; // not shown
    const key = [width, u, names, ...sinks.map((sink) => sink.name)].join();
    if (key !== this.key) {
      this.key = key;
      this.build(layout(width, stages.length, sinks.length, u), names, sinks, u, named ? flow.query : "");
    }
    this.update(glance, flow, stages, sinks, u);
  }

  build(plan, names, sinks, u, title) {
    this.plan = plan;
    const root = svg("svg", { width: plan.width, height: plan.height, viewBox: `0 0 ${plan.width} ${plan.height}`, role: "img" });
    const pipe = (d) => {
      const group = svg("g", { class: "pipe" });
      const parts = ["casing", "water", "drift"].map((kind) => svg("path", { d, class: kind }));
      group.append(...parts);
      root.append(group);
      return { group, parts };
    };
    this.branches = plan.branches.map(pipe);
    this.pipes = plan.pipes.map(pipe);
    this.topic = tank(root, plan, u);
    this.boxes = plan.boxes.map((box, index) => chamber(root, box, plan.wide, u, NAMES[names[index]]));
    this.stores = plan.stores.map((box, index) => store(root, box, plan.wide, u, sinks[index]));
    this.node.replaceChildren(...(title ? [Object.assign(document.createElement("h3"), { textContent: title })] : []), root);
    this.root = root;
  }

  update(glance, flow, stages, sinks, u) {
    const sink = flow.stages.find((one) => one.stage === "sink");
    const busiest = [...stages, sink].reduce((most, one, index, all) => ((one.busy ?? 0) > (all[most].busy ?? 0) ? index : most), 0);
    const pressure = (stage, index) => (stage.busy == null ? null : index <= busiest ? flow.busy : stage.busy);
    fillTank(this.topic, glance, u);
    stages.forEach((stage, index) => {
      fillChamber(this.boxes[index], stage, flow);
      flood(this.pipes[index], stage.rate_eps ?? flow.stages[0].rate_eps, pressure(stage, index), u);
    });
    sinks.forEach((one, index) => {
      fillStore(this.stores[index], one, glance, flow.origin === "sink");
      flood(this.branches[index], one.rate_eps, pressure(sink, stages.length), u);
    });
    set(this.root, { "aria-label": told(glance, flow, stages, sinks) });
  }
}

/** Up to the busiest stage a pipe stands under the pressure of the whole; behind it, of the stage it leads to. */
function flood({ group, parts }, rate, busy, u) {
  const width = bore(rate ?? 0, u);
  set(group, { "data-step": busy == null ? "unknown" : step(busy), "data-dry": rate > 0 ? "no" : "yes" });
  set(parts[0], { "stroke-width": (width + 0.3 * u).toFixed(2) });
  set(parts[1], { "stroke-width": width.toFixed(2) });
  set(parts[2], { "stroke-width": (width * 0.26).toFixed(2) });
}

const label = (root, x, y, kind, anchor = "start") => {
  const made = svg("text", { x, y, class: kind, "text-anchor": anchor });
  root.append(made);
  return made;
};

function tank(root, plan, u) {
  const { x, y, w, h } = plan.topic;
  const clip = `tank-${Math.random().toString(36).slice(2)}`;
  const shape = { x, y, width: w, height: h, rx: 3 };
  const path = svg("clipPath", { id: clip });
  path.append(svg("rect", shape));
  const level = svg("rect", { x, width: w, class: "level", "clip-path": `url(#${clip})` });
  root.append(path, svg("rect", { ...shape, class: "box" }), level, svg("rect", { ...shape, class: "rim" }));
  const left = x + 0.7 * u;
  const right = x + w - 0.7 * u;
  const row = plan.wide ? [1.4, 2.9, 4.5, 5.9] : [1.5, 1.5, 3.2, 3.2];
  const ends = plan.wide ? [left, left, left, left] : [left, right, left, right];
  const kinds = ["name", "value", "value", "small"];
  const lines = row.map((at, index) => label(root, ends[index], y + at * u, kinds[index], ends[index] === right ? "end" : "start"));
  return { lines, level, box: plan.topic };
}

function fillTank({ lines, level, box }, glance, u) {
  const { lag } = glance;
  const age_s = (lag?.age_ms ?? 0) / 1000;
  const share = Math.min(1, Math.log10(1 + age_s) / Math.log10(1 + FULL_AGE_S));
  const tall = Math.max(lag?.records ? 0.18 * u : 0, share * box.h);
  set(level, { y: (box.y + box.h - tall).toFixed(1), height: tall.toFixed(1) });
  words(lines[0], glance.topic ? `Kafka: ${glance.topic}` : "Kafka topic");
  words(lines[1], `${format.rate(glance.rate_in_eps)} in`);
  words(lines[2], `${format.short(lag?.records)} wait`);
  words(lines[3], lag ? `oldest ${format.time(lag.age_ms)}` : "not seen yet");
}

function chamber(root, box, wide, u, name) {
  const { x, y, w, h } = box;
  const group = svg("g", { class: "chamber" });
  root.append(group);
  group.append(svg("rect", { x, y, width: w, height: h, rx: 3, class: "box" }));
  const bar = { x: x + 0.35 * u, w: 0.4 * u, y: y + 0.35 * u, h: h - 0.7 * u };
  group.append(svg("rect", { x: bar.x, y: bar.y, width: bar.w, height: bar.h, class: "gauge" }));
  const gauge = svg("rect", { x: bar.x, width: bar.w, class: "fill" });
  group.append(gauge);
  const left = x + 1.3 * u;
  const right = x + w - 0.7 * u;
  const title = label(group, left, y + (wide ? 1.4 : 1.5) * u, "name");
  words(title, name);
  const places = wide
    ? [[left, 2.9], [left, 4.4], [left, 5.6], [left, 6.8]]
    : [[right, 1.5], [left, 3.3], [right, 3.3], [right, 3.3]];
  const lines = places.map(([at, row], index) =>
    label(group, at, y + row * u, index === 0 ? "value" : index === 1 ? "busy" : "small", at === right ? "end" : "start"));
  const flag = wide ? label(group, x + w / 2, y + h + 1.3 * u, "flag", "middle") : label(group, right - 5.2 * u, y + 1.5 * u, "flag", "end");
  return { group, gauge, bar, lines, flag, wide, roomy: w > 12 * u };
}

function fillChamber({ group, gauge, bar, lines, flag, wide, roomy }, stage, flow) {
  const busy = stage.busy ?? 0;
  const tall = Math.min(1, busy) * bar.h;
  const at = step(stage.busy);
  const origin = flow.origin === stage.stage;
  set(group, { "data-step": stage.busy == null ? "unknown" : at, "data-origin": origin ? "yes" : "no" });
  set(gauge, { y: (bar.y + bar.h - tall).toFixed(1), height: tall.toFixed(1) });
  words(lines[0], format.rate(stage.rate_eps));
  words(lines[1], stage.busy == null ? "busy: not told yet" : `busy ${format.percent(busy)} ${RAMP[at][1]}${roomy ? `  waits ${format.percent(1 - busy)}` : ""}`);
  const room = stage.capacity_eps ? `could do ${format.rate(stage.capacity_eps)}` : "";
  const queue = stage.per_batch == null ? "" : `${format.short(stage.per_batch)} ${UNITS[stage.stage]} a batch`;
  words(lines[2], wide ? queue : "");
  words(lines[3], wide ? room : queue);
  words(flag, origin ? (wide ? "▲ pressure starts here" : "◀ pressure") : "");
}

function store(root, box, wide, u, sink) {
  const { x, y, w, h } = box;
  const group = svg("g", { class: "store" });
  root.append(group);
  group.append(svg("rect", { x, y, width: w, height: h, rx: 3, class: "box" }));
  group.append(svg("rect", { x, y, width: 0.25 * u, height: h, class: "edge" }));
  const left = x + 0.8 * u;
  const right = x + w - 0.6 * u;
  const rows = wide ? [1.4, 2.75] : [1.6, 3.3];
  const title = label(group, left, y + rows[0] * u, "name");
  words(title, cut(sink.name, (w - 6.4 * u) / (0.52 * u)));
  const lines = [label(group, right, y + rows[0] * u, "value", "end"), label(group, left, y + rows[1] * u, "small"), label(group, right, y + rows[1] * u, "small", "end")];
  return { group, lines };
}

const STORES = { kafka: "Kafka", clickhouse: "ClickHouse", postgres: "PostgreSQL" };
export const GUARANTEES = { exactly_once: "exactly once", at_least_once: "at least once" };

function fillStore({ group, lines }, sink, glance, origin) {
  const facts = sink.facts;
  set(group, { "data-origin": origin ? "yes" : "no" });
  words(lines[0], format.rate(sink.rate_eps));
  words(lines[1], facts ? `${STORES[facts.kind]}, ${GUARANTEES[facts.guarantee]}` : "");
  words(lines[2], `${format.time(sink.write_ms)} a write`);
}

const cut = (text, room) => (text.length <= room ? text : `${text.slice(0, Math.max(4, room - 1))}…`);

/** The drawing in words, for who cannot see it. */
function told(glance, flow, stages, sinks) {
  const parts = [`Flow of ${flow.query}. In the topic ${format.count(glance.lag?.records)} records wait.`];
  for (const stage of stages) {
    const busy = stage.busy == null ? "" : `, busy ${format.percent(stage.busy)}, waiting ${format.percent(1 - stage.busy)}`;
    parts.push(`${NAMES[stage.stage]}: ${format.rate(stage.rate_eps)}${busy}.`);
  }
  for (const sink of sinks) parts.push(`Sink ${sink.name}: ${format.rate(sink.rate_eps)}.`);
  if (flow.origin) parts.push(`Pressure starts at ${flow.origin}.`);
  return parts.join(" ");
}

/** What the drawing cannot say. */
export function flowSaid(glance) {
  const flow = glance.flows[0];
  if (!flow) return "No batch yet: stages appear with the first one.";
  const engine = flow.stages.find((one) => one.stage === "engine");
  const idle = Math.max(0, 1 - flow.busy);
  const parts = [`a batch each ${format.time(flow.cycle_ms)}`, `idle ${format.percent(idle)} of the time`];
  if (engine?.busy != null) parts.push(`Spark's planning and logs ${format.percent(engine.busy)}`);
  if (flow.origin) {
    const at = flow.stages.find((one) => one.stage === flow.origin);
    const name = flow.origin === "engine" ? "Spark's planning and logs" : NAMES[flow.origin].toLowerCase();
    parts.unshift(`at its limit: pressure starts at ${name}, which takes ${format.percent(at.busy)} of the time`);
  }
  return parts.join(" · ");
}
