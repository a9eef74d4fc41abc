// What has been, as columns over common moments: coarse points, then fine ones.

const HOLD_MS = 12_000; // a value stands until the next one, but not through an outage
const FINE_MAX = 1800; // a snapshot comes each 900 s, with coarse points up to its fine ones

export class History {
  constructor() {
    this.clear();
  }

  clear() {
    /** @type {{at_ms: number[], columns: Record<string, (number|null)[]>}} */
    this.coarse = { at_ms: [], columns: {} };
    this.fine = { at_ms: [], columns: {} };
    /** @type {{at_ms: number, kind: string, text: string}[]} */
    this.marks = [];
  }

  begin(message) {
    this.coarse = message.coarse;
    this.fine = message.fine;
    this.marks = message.marks;
  }

  /** Points that were sent before replace those of the same second. */
  add(message) {
    const { at_ms, columns } = message.fine;
    if (at_ms.length) {
      const from = this.fine.at_ms.findIndex((at) => at >= at_ms[0]);
      const kept = from < 0 ? this.fine.at_ms.length : from;
      for (const name of new Set([...Object.keys(this.fine.columns), ...Object.keys(columns)])) {
        const before = this.fine.columns[name] ?? Array(this.fine.at_ms.length).fill(null);
        const after = columns[name] ?? Array(at_ms.length).fill(null);
        this.fine.columns[name] = before.slice(0, kept).concat(after).slice(-FINE_MAX);
      }
      this.fine.at_ms = this.fine.at_ms.slice(0, kept).concat(at_ms).slice(-FINE_MAX);
    }
    const known = new Set(this.marks.map((mark) => `${mark.at_ms} ${mark.text}`));
    for (const mark of message.marks) if (!known.has(`${mark.at_ms} ${mark.text}`)) this.marks.push(mark);
    this.marks = this.marks.slice(-200);
  }

  /** Names of columns that begin so, in order of their numbers. @param {string} prefix */
  named(prefix) {
    const names = new Set([...Object.keys(this.coarse.columns), ...Object.keys(this.fine.columns)]);
    return [...names].filter((name) => name.startsWith(prefix)).sort((a, b) => rank(a, prefix) - rank(b, prefix));
  }

  /**
   * Aligned columns of a span of time; the first is seconds, as plots have it.
   * @param {string[]} names
   * @param {number} from_ms
   * @returns {(number|null)[][]}
   */
  window(names, from_ms) {
    const at = [];
    const out = names.map(() => []);
    for (const part of [this.coarse, this.fine]) {
      const first = part.at_ms.findIndex((ms) => ms >= from_ms);
      if (first < 0) continue;
      for (let i = first; i < part.at_ms.length; i++) at.push(part.at_ms[i] / 1000);
      names.forEach((name, index) => {
        const column = part.columns[name];
        for (let i = first; i < part.at_ms.length; i++) out[index].push(column ? column[i] : null);
      });
    }
    for (const column of out) hold(at, column);
    return [at, ...out];
  }
}

const rank = (name, prefix) => {
  const number = Number(name.slice(prefix.length));
  return Number.isNaN(number) ? 1e9 : number;
};

/** Batches are rarer than seconds: each value stands until the next, for a while. */
function hold(at, column) {
  let value = null;
  let since = 0;
  for (let i = 0; i < at.length; i++) {
    if (column[i] != null) [value, since] = [column[i], at[i]];
    else if (value != null && (at[i] - since) * 1000 <= HOLD_MS) column[i] = value;
  }
}
