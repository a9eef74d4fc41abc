// Numbers for people: short, with units, the same width from one second to the next.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const NONE = "–";

/** @param {number|null|undefined} value */
export const count = (value) => (value == null ? NONE : whole.format(value));

/** A count in four signs: 12.3 k, 4.50 M. @param {number|null|undefined} value */
export function short(value) {
  if (value == null) return NONE;
  const size = Math.abs(value);
  if (size < 1000) return whole.format(value);
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) {
      const scaled = value / unit;
      return `${scaled.toFixed(scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)} ${name}`;
    }
  }
}

/** @param {number|null|undefined} value */
export const rate = (value) => (value == null ? NONE : `${short(value)}/s`);

/** A length of time. @param {number|null|undefined} ms */
export function time(ms) {
  if (ms == null) return NONE;
  if (ms < 1000) return `${whole.format(ms)} ms`;
  if (ms < 100_000) return `${one.format(ms / 1000)} s`;
  if (ms < 5_400_000) return `${one.format(ms / 60_000)} min`;
  return `${one.format(ms / 3_600_000)} h`;
}

/** @param {number|null|undefined} value */
export function bytes(value) {
  if (value == null) return NONE;
  for (const [unit, name] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]]) {
    if (value >= unit) return `${(value / unit).toFixed(value / unit >= 100 ? 0 : 1)} ${name}`;
  }
  return `${whole.format(value)} B`;
}

/** @param {number|null|undefined} share of 1 */
export const percent = (share) => (share == null ? NONE : `${(share * 100).toFixed(0)} %`);

/** A small share, where 0.7 % matters. @param {number|null|undefined} share of 1 */
export const fine = (share) => (share == null ? NONE : `${(share * 100).toFixed(2)} %`);

/** @param {number} at_ms */
export const clock = (at_ms) =>
  new Date(at_ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** @param {number} at_ms */
export const day = (at_ms) => `${new Date(at_ms).toLocaleDateString("en-CA")} ${clock(at_ms)}`;

/** How long ago, in whole seconds up to a minute and a half. @param {number} ms */
export function ago(ms) {
  if (ms < 1500) return "just now";
  return ms < 90_000 ? `${Math.round(ms / 1000)} s ago` : `${time(ms)} ago`;
}
