// Dead letters, read when a person asks: the newest, and a look into one.

import { $, element, put, sheet } from "./dom.js";
import * as format from "./format.js";

let shown = "";

/** @param {string} pipeline */
export function letterBox(pipeline) {
  if (pipeline === shown) return;
  shown = pipeline;
  $("letters").replaceChildren();
  put($("letters-said"), $("letters-load").hidden
    ? "Of a recording there is no topic to look into."
    : "records that were set aside, with the reason and their bytes");
}

export function wireLetters(pipeline) {
  $("letters-load").addEventListener("click", () => read(pipeline()));
}

async function ask(path) {
  const answer = await fetch(path);
  const told = await answer.json();
  if (!answer.ok) throw new Error([told.error, told.hint].filter(Boolean).join(" "));
  return told;
}

async function read(pipeline) {
  put($("letters-said"), "reading …");
  try {
    const told = await ask(`/letters/${encodeURIComponent(pipeline)}`);
    draw(pipeline, told);
  } catch (trouble) {
    put($("letters-said"), trouble.message);
  }
}

function draw(pipeline, told) {
  put($("letters-said"), told.newest.length
    ? `the newest of ${told.topic}${told.whole ? "" : ", of the last 200 of each partition"}`
    : `no dead letters in ${told.topic}: nothing was set aside`);
  const groups = element("table");
  sheet(groups, "Reasons", [
    { name: "kind", text: (g) => g.kind }, { name: "count", kind: "n", text: (g) => format.count(g.count) }, { name: "reason", text: (g) => g.reason },
  ], told.groups, (g) => `${g.kind} ${g.reason}`);
  const list = element("table");
  sheet(list, "The newest dead letters", [
    { name: "place", text: (l) => l.place }, { name: "set aside", text: (l) => format.day(l.at_ms) }, { name: "kind", text: (l) => l.kind },
    { name: "reason", text: (l) => l.reason }, { name: "record", kind: "mono", text: (l) => l.snippet },
  ], told.newest, (l) => l.place);
  for (const row of list.tBodies[0].rows) {
    const button = element("button", { type: "button", class: "link" }, row.cells[0].textContent);
    button.addEventListener("click", () => look(pipeline, button.textContent));
    row.cells[0].replaceChildren(button);
  }
  $("letters").replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Dead letters" }, groups, list));
}

async function look(pipeline, place) {
  const dialog = $("letter");
  put($("letter-title"), `Dead letter ${place}`);
  $("letter-body").replaceChildren(element("p", {}, "reading …"));
  dialog.showModal();
  try {
    const told = await ask(`/letters/${encodeURIComponent(pipeline)}/${encodeURIComponent(place)}`);
    const facts = [["kind", told.kind], ["reason", told.reason], ["set aside", format.day(told.at_ms)], ["came from", told.origin], ["size", format.bytes(told.bytes)]];
    const rest = told.lines_left ? `\n… and ${told.lines_left} more lines: penstock dead-letters show` : "";
    $("letter-body").replaceChildren(
      element("dl", { class: "pairs" }, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
      ...(told.caret ? [element("pre", { class: "caret" }, told.caret.join("\n"))] : []),
      element("pre", { tabindex: "0" }, told.lines.join("\n") + rest));
  } catch (trouble) {
    $("letter-body").replaceChildren(element("p", {}, trouble.message));
  }
}
