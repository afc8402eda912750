// Times, durations and ranges as people read them.

const HOUR = 3600e3, DAY = 24 * HOUR;

export const ms = (time) => new Date(time).getTime();

// duration is a length of time, in ms, like 29.5s, 1m30s or 2d3h.
export function duration(d) {
  if (d < 0) d = 0;
  if (d < 1000) return Math.round(d) + "ms";
  if (d < 60e3) return +(d / 1000).toFixed(1) + "s";
  const parts = [[DAY, "d"], [HOUR, "h"], [60e3, "m"], [1000, "s"]];
  let text = "";
  for (const [unit, name] of parts) {
    const n = Math.floor(d / unit);
    d -= n * unit;
    if (n > 0) text += n + name;
    if (text.length > 5) break;
  }
  return text;
}

// FOREVER is more than any lock lasts: what ends later has no end.
export const FOREVER = 300 * DAY;

// clock is the time that has passed, like 0:01:30.000.
export function clock(d) {
  const sign = d < 0 ? "-" : "";
  d = Math.abs(Math.round(d));
  const p = (n, w) => String(n).padStart(w, "0");
  const days = Math.floor(d / DAY);
  return sign + (days ? days + "d " : "") + p(Math.floor(d / HOUR) % 24, days ? 2 : 1) + ":" + p(Math.floor(d / 60e3) % 60, 2) + ":" + p(Math.floor(d / 1000) % 60, 2) + "." + p(d % 1000, 3);
}

export const range = (first, last) => (first === last ? String(first) : first + "\u2013" + last);
export const ofRange = (first, last) => (first === last ? String(first) : first + "-" + last);
export const count = (n, one, many = one + "s") => n.toLocaleString("en") + " " + (n === 1 ? one : many);
export const number = (n) => n.toLocaleString("en");

// word is a word of a command: in quotes where it has to be.
export function word(s) {
  return /^[^\s"#=&]+$/.test(s) && s !== "/" ? s : '"' + s.replace(/(["\\])/g, "\\$1") + '"';
}

export const stateName = {
  AVAILABLE: "available", ACQUIRED: "acquired", TX_PENDING: "waits for a transaction", ACKNOWLEDGED: "acknowledged", ARCHIVED: "archived", ARCHIVING: "on its way to the dead-letter queue",
};
export const letters = { AVAILABLE: "·", ACQUIRED: "A", TX_PENDING: "T", ACKNOWLEDGED: "✓", ARCHIVED: "×", ARCHIVING: "…" };

// caption is text as it is shown: a number stays with its unit.
export const caption = (text) => text.replace(/(\d) (s|ms|h|m|records?|offsets?)\b/g, "$1\u00a0$2");
