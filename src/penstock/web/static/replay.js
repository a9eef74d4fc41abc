// The bar of a replay. A moment is part of what is asked for: to jump is to ask anew.

import { $, put } from "./dom.js";
import * as format from "./format.js";

export class Replay {
  /** @param {(at_ms: number, speed: number) => void} jump */
  constructor(jump) {
    this.jump = jump;
    this.place = { start_ms: 0, end_ms: 1, at_ms: 0, speed: 1 };
    this.held = false;
    const scrub = /** @type {HTMLInputElement} */ ($("scrub"));
    scrub.addEventListener("input", () => {
      this.held = true;
      put($("moment"), this.said(this.at(scrub.value)));
    });
    scrub.addEventListener("change", () => {
      this.held = false;
      this.jump(this.at(scrub.value), this.place.speed);
    });
    $("play").addEventListener("click", () => this.toggle());
    $("speed").addEventListener("change", () => this.place.speed && this.jump(this.place.at_ms, this.chosen()));
  }

  chosen() {
    return Number(/** @type {HTMLSelectElement} */ ($("speed")).value);
  }

  at(value) {
    const { start_ms, end_ms } = this.place;
    return Math.round(start_ms + ((end_ms - start_ms) * Number(value)) / 1000);
  }

  said(at_ms) {
    const { start_ms, end_ms } = this.place;
    return `${format.clock(at_ms)} · ${format.time(at_ms - start_ms)} of ${format.time(end_ms - start_ms)}`;
  }

  toggle() {
    const { start_ms, end_ms, at_ms, speed } = this.place;
    this.jump(at_ms >= end_ms ? start_ms : at_ms, speed ? 0 : this.chosen());
  }

  heard(place) {
    this.place = place;
    $("replay").hidden = false;
    document.body.classList.add("replaying");
    const stands = place.speed === 0 || place.at_ms >= place.end_ms;
    put($("play").firstElementChild, stands ? "▶" : "❚❚");
    $("play").setAttribute("aria-label", stands ? "Play" : "Pause");
    if (!this.held) {
      const scrub = /** @type {HTMLInputElement} */ ($("scrub"));
      scrub.value = String(Math.round((1000 * (place.at_ms - place.start_ms)) / Math.max(1, place.end_ms - place.start_ms)));
      scrub.setAttribute("aria-valuetext", this.said(place.at_ms));
      put($("moment"), this.said(place.at_ms));
    }
  }
}
