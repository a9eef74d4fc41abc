// The page: what is heard is kept, and drawn once a second.

import { SIGNS, drawCards } from "./cards.js";
import { $, element, put } from "./dom.js";
import { Flow, flowSaid } from "./flow.js";
import * as format from "./format.js";
import { History } from "./history.js";
import { letterBox, wireLetters } from "./letters.js";
import { Plots } from "./plots.js";
import { Replay } from "./replay.js";
import { Stream } from "./stream.js";
import { drawAlerts, drawFigures, drawMachine, drawMarks, drawPartitions, drawSinks, drawSpans } from "./tables.js";

const RANGES = [["5 min", 300_000], ["15 min", 900_000], ["1 h", 3_600_000], ["12 h", 43_200_000]];
const QUIET_MS = 4_000; // a message comes each second

const history = new History();
const flow = new Flow($("flow"));
const plots = new Plots($("plots"));
const replay = new Replay((at, speed) => stream.open({ pipeline: page.shown, at, speed }));
const stream = new Stream({
  cards: (cards) => heardCards(cards),
  snapshot: (message) => { history.begin(message); page.objective_ms = message.objective_ms; heard(message); },
  delta: (message) => { history.add(message); heard(message); },
  replay: (place) => replay.heard(place),
});
const page = { shown: "", range_ms: stored("range") ? Number(stored("range")) : 300_000, message: null, heard_at: 0, objective_ms: null, about: null, names: [], announced: "" };

function stored(name) {
  try { return localStorage.getItem(`penstock-${name}`); } catch { return null; }
}

function store(name, value) {
  try { localStorage.setItem(`penstock-${name}`, value); } catch { /* a browser that keeps nothing */ }
}

function heardCards(cards) {
  page.names = cards.map((card) => card.name);
  $("empty").hidden = cards.length > 0;
  $("board").hidden = cards.length === 0;
  drawCards(cards, page.shown);
  if (cards.length === 0) say("idle", "No pipeline", "", "Nothing has run here yet.");
  else if (!page.names.includes(page.shown) && !page.about?.replay) show(page.names[0]);
}

function heard(message) {
  page.message = message;
  page.heard_at = performance.now();
  draw();
}

function draw() {
  const { message } = page;
  if (!message) return;
  const { glance, judgement, alerts } = message;
  say(judgement.level, judgement.headline, glance.name, judgement.reason);
  drawAlerts(alerts, glance.now_ms);
  drawFigures(glance, page.objective_ms);
  flow.draw(glance);
  put($("flow-said"), flowSaid(glance));
  plots.draw(history, glance.now_ms, page.range_ms);
  drawSinks(glance);
  drawPartitions(glance);
  drawSpans(glance);
  drawMachine(glance);
  drawMarks(history.marks);
  letterBox(glance.name);
  tick();
}

function say(level, headline, name, reason) {
  document.body.dataset.level = level;
  put($("sign"), SIGNS[level]);
  put($("headline"), headline);
  put($("of"), name ? ` ${name}` : "");
  put($("reason"), reason);
  document.title = name ? `${SIGNS[level]} ${headline}: ${name}` : "Penstock";
  // Spoken when the verdict changes, not when its numbers do.
  if (page.announced !== level + headline + name) {
    page.announced = level + headline + name;
    put($("announce"), `${name} ${headline}. ${reason}`);
  }
}

/** How old what is shown is: said each second, also when nothing comes. */
function tick() {
  const quiet = stream.quiet();
  const gone = quiet > QUIET_MS;
  $("gone").hidden = !gone;
  if (gone) put($("gone"), `The connection to penstock web is gone; trying again. What is shown was heard ${format.ago(quiet)}.`);
  document.body.classList.toggle("stale", gone);
  if (!page.message) return;
  const { glance } = page.message;
  const aged = glance.now_ms - glance.last_ms + (page.about?.replay ? 0 : performance.now() - page.heard_at);
  put($("heard"), glance.last_ms ? `last sample ${format.ago(aged)}` : "no sample yet");
  document.body.classList.toggle("silent", aged > 15_000);
}

function show(name) {
  page.shown = name;
  page.message = null;
  history.clear();
  if (decodeURIComponent(location.hash.slice(1)) !== name) location.replace(`#${encodeURIComponent(name)}`);
  stream.open({ pipeline: name });
}

function drawRanges() {
  const buttons = RANGES.map(([label, ms]) => {
    const on = ms === page.range_ms;
    const button = element("button", { type: "button", role: "radio", "aria-checked": String(on), tabindex: on ? "0" : "-1" }, label);
    button.addEventListener("click", () => choose(ms));
    return button;
  });
  $("ranges").replaceChildren(...buttons);
}

function choose(range_ms) {
  page.range_ms = range_ms;
  store("range", range_ms);
  drawRanges();
  draw();
}

/** First to what is not shown now, then back to following the system. */
function nextTheme() {
  const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  store("theme", stored("theme") ? "" : other);
  dispatchEvent(new Event("theme-chosen"));
}

function step(by) {
  const at = page.names.indexOf(page.shown);
  if (at >= 0 && page.names.length > 1) show(page.names[(at + by + page.names.length) % page.names.length]);
}

function keys(pressed) {
  const { target } = pressed;
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || target.matches("input:not([type=range]), select, textarea")) return;
  const chosen = RANGES[Number(pressed.key) - 1];
  if (pressed.key === "?") $("help").showModal();
  else if (pressed.key === "t") nextTheme();
  else if (pressed.key === "[") step(-1);
  else if (pressed.key === "]") step(1);
  else if (chosen) choose(chosen[1]);
  else if (pressed.key === " " && page.about?.replay && !target.matches("button, a")) {
    replay.toggle();
    pressed.preventDefault();
  }
}

/** In a group of which one is chosen the arrows choose, and Tab leaves it. */
function arrows(pressed) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[pressed.key];
  if (!by) return;
  const at = RANGES.findIndex(([, ms]) => ms === page.range_ms);
  choose(RANGES[(at + by + RANGES.length) % RANGES.length][1]);
  $("ranges").querySelector('[aria-checked="true"]').focus();
  pressed.preventDefault();
}

async function begin() {
  drawRanges();
  $("ranges").addEventListener("keydown", arrows);
  $("theme").addEventListener("click", nextTheme);
  $("help-open").addEventListener("click", () => $("help").showModal());
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  document.addEventListener("keydown", keys);
  addEventListener("themed", () => { plots.restyle(); draw(); });
  addEventListener("hashchange", () => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (name && name !== page.shown) show(name);
  });
  wireLetters(() => page.shown);
  setInterval(tick, 1000);
  page.about = await (await fetch("/about")).json();
  put($("version"), `penstock ${page.about.version}`);
  $("letters-load").hidden = page.about.replay;
  const asked = decodeURIComponent(location.hash.slice(1));
  const first = page.about.pipelines.includes(asked) ? asked : page.about.pipelines[0] ?? "";
  page.shown = first;
  stream.open({ pipeline: first });
}

begin();
