// The pipelines side by side: a tab each, which says how it is.

import { $, element, keep, put } from "./dom.js";
import * as format from "./format.js";

export const SIGNS = { good: "●", idle: "○", warning: "▲", critical: "■" };

export function drawCards(cards, shown) {
  $("tabs").dataset.many = cards.length > 1 ? "yes" : "no";
  keep($("tabs"), cards, (card) => card.name,
    (card) => element("a", { href: `#${encodeURIComponent(card.name)}` },
      element("span", { class: "sign", "aria-hidden": "true" }), element("b", {}, card.name), element("span", { class: "how" }), element("span", { class: "numbers" }), spark()),
    (node, card) => {
      node.dataset.level = card.level;
      node.title = card.reason;
      if (card.name === shown) node.setAttribute("aria-current", "page");
      else node.removeAttribute("aria-current");
      const [sign, , how, numbers, line] = node.children;
      put(sign, SIGNS[card.level]);
      put(how, card.headline);
      put(numbers, `${format.rate(card.rate_out_eps)} · p99 ${format.time(card.p99_ms)} · lag ${format.short(card.lag)}`);
      line.firstChild.setAttribute("points", path(card.spark));
    });
}

function spark() {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("viewBox", "0 0 60 14");
  made.setAttribute("preserveAspectRatio", "none");
  made.setAttribute("aria-hidden", "true");
  made.append(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
  return made;
}

/** The rate of the last minute. */
function path(values) {
  const known = values.filter((value) => value != null);
  const most = Math.max(1, ...known);
  return known.map((value, index) => `${((index * 60) / Math.max(1, known.length - 1)).toFixed(1)},${(13 - (12 * value) / most).toFixed(1)}`).join(" ");
}
