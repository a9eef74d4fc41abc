// The connection: a snapshot, then deltas, and the knowledge of when the last one came.

/**
 * @typedef {object} Heard
 * @property {(cards: object[]) => void} cards
 * @property {(message: object) => void} snapshot
 * @property {(message: object) => void} delta
 * @property {(place: object) => void} replay
 */

export class Stream {
  /** @param {Heard} heard */
  constructor(heard) {
    this.heard = heard;
    this.lastAt = 0;
    /** @type {EventSource|null} */
    this.source = null;
    this.query = "";
  }

  /** Listen, from the beginning. @param {Record<string, string|number>} asked */
  open(asked) {
    this.source?.close();
    this.query = new URLSearchParams(Object.entries(asked).map(([k, v]) => [k, String(v)])).toString();
    const source = new EventSource(`/events?${this.query}`);
    this.source = source;
    for (const kind of ["cards", "snapshot", "delta", "replay"]) {
      source.addEventListener(kind, (message) => {
        if (source !== this.source) return; // of a stream that was left
        this.lastAt = performance.now();
        this.heard[kind](JSON.parse(message.data));
      });
    }
    // A browser tries again by itself, but not where it was refused: a page that was left open over a
    // restart of a server with another token.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED && source === this.source) {
        setTimeout(() => source === this.source && this.open(asked), 2000);
      }
    });
  }

  /** Milliseconds since anything was heard. */
  quiet() {
    return this.lastAt ? performance.now() - this.lastAt : 0;
  }
}
