// Plots over one time: a shared cursor, and the events of the run on each of them.

import uPlot from "./vendor/uPlot.js";
import { element, put } from "./dom.js";
import * as format from "./format.js";

const sync = uPlot.sync("time");
const HEIGHT = 165;

/** Colours come from the style sheet, so that light and dark have their own. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @typedef {{key: string, label: string, colour: string, width?: number, dash?: number[], fill?: string, scale?: string}} Line */
/**
 * @typedef {object} Plan
 * @property {string} title
 * @property {string} about
 * @property {(history: import("./history.js").History) => Line[]} lines
 * @property {(value: number|null) => string} say
 * @property {boolean} [stacked]
 * @property {boolean} [log]
 * @property {number} [floor]  of the scale's top
 * @property {string} empty
 * @property {{scale: string, say: (value: number|null) => string}} [right]
 */

/** @type {Plan[]} */
const PLANS = [
  {
    title: "Rates", about: "events a second", say: format.rate, empty: "No events have been seen yet.", floor: 10,
    lines: () => [
      { key: "rate_in", label: "in", colour: "--in", width: 1, dash: [4, 3] },
      { key: "rate_out", label: "out", colour: "--out", width: 2 },
    ],
  },
  {
    title: "Lag by partition", about: "records that wait, stacked", say: format.short, stacked: true, floor: 10,
    empty: "No look at the topic's ends yet: Kafka may be away.",
    lines: (history) => history.named("lag_").map((key, index, all) => ({
      key, label: key === "lag_rest" ? "others" : `partition ${key.slice(4)}`, colour: `--step-${Math.round((index / Math.max(1, all.length - 1)) * 7)}`,
    })),
  },
  {
    title: "Latency", about: "event to visible, logarithmic", say: format.time, log: true,
    empty: "No latencies yet. They need a column with the time an event was made (source.created).",
    lines: () => [
      { key: "max", label: "max", colour: "--faint", width: 1 },
      { key: "p999", label: "p99.9", colour: "--l3", width: 1 },
      { key: "p99", label: "p99", colour: "--l2", width: 2.5 },
      { key: "p95", label: "p95", colour: "--l1", width: 1 },
      { key: "p50", label: "p50", colour: "--l0", width: 1.5, dash: [5, 3] },
    ],
  },
  {
    title: "Batch by phase", about: "milliseconds, stacked", say: format.time, stacked: true, floor: 100,
    empty: "No batch yet.",
    lines: (history) => ["offsets", "planning", "log", "compute", "sinks", "commit"]
      .map((name, index) => ({ key: `phase_${name}`, label: name, colour: `--phase-${index}` }))
      .filter((line) => history.named(line.key).length),
  },
  {
    title: "State", about: "kept, and added by a batch", say: format.bytes, floor: 1 << 20,
    empty: "No state, or no account of it yet: it comes with Spark's own samples.",
    lines: () => [
      { key: "state_memory", label: "memory", colour: "--out", width: 2 },
      { key: "state_disk", label: "disk", colour: "--in", width: 1.5, dash: [4, 3] },
      { key: "checkpoint_bytes", label: "a batch", colour: "--l1", width: 1.5 },
    ],
  },
  {
    title: "Busy by stage", about: "share of the time, stacked", say: format.percent, stacked: true, floor: 1,
    empty: "Where the time goes is told by Spark's own samples; none has come yet.",
    lines: () => ["source", "decode", "shuffle", "state", "sink", "engine"]
      .map((name, index) => ({ key: `busy_${name}`, label: name, colour: `--phase-${index}` })),
  },
  {
    title: "Heap", about: "used, of what there is", say: format.bytes, floor: 1 << 28, empty: "No sample of the processes yet.",
    lines: () => [
      { key: "heap_max", label: "limit", colour: "--faint", width: 1, dash: [2, 4] },
      { key: "rss", label: "resident", colour: "--in", width: 1.5, dash: [4, 3] },
      { key: "heap_used", label: "used", colour: "--out", width: 2 },
    ],
  },
  {
    title: "Processor and GC", about: "cores; share of the time", say: (v) => (v == null ? format.NONE : v.toFixed(2)),
    floor: 1, empty: "No sample of the processes yet.",
    lines: () => [
      { key: "cpu", label: "cores", colour: "--out", width: 2 },
      { key: "gc", label: "gc", colour: "--l3", width: 2 },
    ],
  },
];

class Plot {
  /**
   * @param {Plan} plan
   * @param {Plot[]} others  all plots, this one among them: keys move the cursor of each
   */
  constructor(plan, others) {
    this.plan = plan;
    this.others = others;
    this.key = "";
    /** @type {uPlot|null} */
    this.plot = null;
    this.data = [[]];
    this.legend = element("p", { class: "legend", "aria-hidden": "true" });
    this.canvas = element("div", { class: "canvas", tabindex: "0", role: "img" });
    this.none = element("p", { class: "none" }, plan.empty);
    this.node = element("figure", { class: "plot" },
      element("figcaption", {}, element("h3", {}, plan.title), element("span", {}, plan.about)),
      this.legend, this.canvas, this.none);
    this.canvas.addEventListener("keydown", (pressed) => this.step(pressed));
  }

  /** @param {import("./history.js").History} history */
  draw(history, from_ms, to_ms, marks) {
    const lines = this.plan.lines(history);
    const values = history.window(lines.map((line) => line.key), from_ms);
    const known = values.slice(1).some((column) => column.some((value) => value != null));
    this.canvas.hidden = this.legend.hidden = !known;
    this.none.hidden = known;
    if (!known) return;
    this.raw = values;
    this.marks = marks;
    this.span = [from_ms / 1000, to_ms / 1000];
    this.data = this.plan.stacked ? stacked(values) : values;
    const key = lines.map((line) => line.key).join();
    if (this.plot && key === this.key) this.plot.setData(this.data);
    else this.make(lines, key);
    this.say();
  }

  make(lines, key) {
    this.plot?.destroy();
    this.key = key;
    this.lines = lines;
    this.items = lines.map((line) => {
      const swatch = element("i");
      swatch.style.background = colour(line.colour);
      const text = element("b");
      return { node: element("span", {}, swatch, `${line.label} `, text), text };
    });
    // Many partitions have no room for a name each: their sum and the worst stand for them.
    this.crowd = lines.length > 6 ? [element("span"), element("span")] : null;
    this.legend.replaceChildren(...(this.crowd ?? this.items.map((item) => item.node)));
    this.plot = new uPlot(this.options(lines), this.data, this.canvas);
  }

  options(lines) {
    const ink = colour("--muted");
    const rule = { stroke: colour("--rule"), width: 1 };
    const font = `${Math.round(em() * 0.72)}px system-ui, sans-serif`;
    const { plan } = this;
    const decades = (_plot, splits) => splits.map((value) => (/^10*$/.test(String(value)) ? value : null));
    const few = plan.log ? { filter: decades } : {};
    return {
      width: Math.max(200, this.canvas.clientWidth), height: height(), legend: { show: false }, padding: [em() * 0.6, em() * 0.5, 0, 0],
      cursor: { sync: { key: sync.key, setSeries: false }, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: () => this.span },
        y: plan.log
          ? { distr: 3, range: (_plot, low, high) => [Math.max(1, 10 ** Math.floor(Math.log10(low || 1))), 10 ** Math.ceil(Math.log10(Math.max(high, 100)))] }
          : { range: (_plot, _low, high) => [0, Math.max(plan.floor ?? 1, high) * 1.12] },
      },
      axes: [
        { stroke: ink, font, grid: { show: false }, ticks: { ...rule, size: 4 }, size: em() * 1.6, space: em() * 3.8,
          values: (_plot, splits, _axis, _space, step) => splits.map((at) => format.clock(at * 1000).slice(0, step < 60 ? 8 : 5)) },
        { stroke: ink, font, grid: { ...rule, ...few }, ticks: { show: false }, size: em() * 4.4, space: em() * 2, ...few,
          values: (_plot, splits) => splits.map((value) => (value == null ? "" : plan.say(value))) },
      ],
      series: [{}, ...lines.map((line) => ({
        label: line.label, stroke: colour(line.colour), width: line.width ?? 1, dash: line.dash,
        fill: plan.stacked ? colour(line.colour) : undefined, points: { show: false },
      }))],
      hooks: { drawClear: [(plot) => this.drawMarks(plot)], setCursor: [() => this.say()] },
    };
  }

  /** The events of the run, under the lines: a rule, and a word where there is room. */
  drawMarks(plot) {
    const { ctx } = plot;
    const { left, top, width, height: tall } = plot.bbox;
    const scale = devicePixelRatio;
    let free = 0;
    ctx.save();
    ctx.font = `${Math.round(em() * 0.66 * scale)}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.at_ms / 1000, "x", true);
      if (x < left || x > left + width) continue;
      ctx.strokeStyle = ctx.fillStyle = colour(MARKS[mark.kind]?.colour ?? "--muted");
      ctx.setLineDash([3 * scale, 3 * scale]);
      ctx.lineWidth = scale;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + tall);
      ctx.stroke();
      const word = MARKS[mark.kind]?.word || mark.text.split(":")[0].slice(0, 22);
      const room = ctx.measureText(word).width + 8 * scale;
      const right = x + room > left + width;
      if (word && (right ? x - room : x) >= free) {
        ctx.textAlign = right ? "right" : "left";
        ctx.fillText(word, right ? x - 4 * scale : x + 4 * scale, top + 1);
        free = x + room;
      }
    }
    ctx.restore();
  }

  /** The values under the cursor, or the newest. */
  say() {
    if (!this.plot || !this.raw) return;
    const chosen = this.plot.cursor.idx;
    const values = this.raw.slice(1).map((column) => (chosen == null ? column.findLast((one) => one != null) : column[chosen]) ?? null);
    let told = this.lines.map((line, index) => {
      const text = this.plan.say(values[index]);
      put(this.items[index].text, text);
      return `${line.label}${this.crowd ? ":" : ""} ${text}`;
    });
    if (this.crowd) {
      const worst = values.indexOf(Math.max(...values));
      told = [`together ${this.plan.say(values.reduce((sum, value) => sum + value, 0))}`, `most in ${told[worst] ?? "none"}`];
      told.forEach((text, index) => put(this.crowd[index], text));
    }
    const when = chosen == null ? "now" : `at ${format.clock(this.raw[0][chosen] * 1000)}`;
    this.canvas.setAttribute("aria-label", `${this.plan.title}, ${when}: ${told.join(", ")}. Arrow keys move in time.`);
  }

  /** @param {KeyboardEvent} pressed */
  step(pressed) {
    if (!this.plot) return;
    const last = this.data[0].length - 1;
    const at = this.plot.cursor.idx ?? last;
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 30, PageDown: at + 30, Home: 0, End: last };
    if (pressed.key === "Escape") this.others.forEach((plot) => plot.point(null));
    else if (pressed.key in steps) {
      const seconds = this.data[0][Math.min(last, Math.max(0, steps[pressed.key]))];
      this.others.forEach((plot) => plot.point(seconds));
    } else return;
    pressed.preventDefault();
  }

  /** Put the cursor at a moment, or away. */
  point(seconds) {
    this.plot?.setCursor(seconds == null ? { left: -10, top: -10 } : { left: this.plot.valToPos(seconds, "x"), top: 20 });
  }

  resize() {
    if (this.plot && this.canvas.clientWidth) {
      this.plot.setSize({ width: this.canvas.clientWidth, height: height() });
    }
  }
}

const em = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const height = () => Math.round((HEIGHT / 16) * em());

const MARKS = {
  start: { word: "start", colour: "--muted" },
  ready: { word: "running", colour: "--good" },
  away: { word: "away", colour: "--critical" },
  back: { word: "back", colour: "--good" },
  failed: { word: "batch failed", colour: "--critical" },
  fatal: { word: "failed", colour: "--critical" },
  stop: { word: "stopped", colour: "--muted" },
  news: { word: "", colour: "--muted" },
};

/** Each line on top of those before it; the highest is drawn first, so that none hides another. */
function stacked(values) {
  const sums = values.slice(1).map((column) => column.slice());
  for (let line = sums.length - 2; line >= 0; line--) {
    for (let i = 0; i < sums[line].length; i++) {
      if (sums[line + 1][i] != null) sums[line][i] = (sums[line][i] ?? 0) + sums[line + 1][i];
    }
  }
  return [values[0], ...sums];
}

export class Plots {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    /** @type {Plot[]} */
    this.plots = [];
    for (const plan of PLANS) this.plots.push(new Plot(plan, this.plots));
    parent.replaceChildren(...this.plots.map((plot) => plot.node));
    new ResizeObserver(() => this.plots.forEach((plot) => plot.resize())).observe(parent);
  }

  draw(history, now_ms, range_ms) {
    const { marks } = history;
    for (const plot of this.plots) plot.draw(history, now_ms - range_ms, now_ms, marks);
  }

  /** Colours have changed. */
  restyle() {
    for (const plot of this.plots) plot.key = "";
  }
}
