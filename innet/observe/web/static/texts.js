// Figures as text, and elements of the page. Names of a network become text nodes, never markup.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

export function figure(value, unit = "") {
  if (value === null || value === undefined) return "–";
  const [size, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  const scaled = value / size;
  const digits = scaled >= 100 || Number.isInteger(scaled) ? 0 : scaled >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${prefix}${unit}`.trimEnd();
}

export const rate = (bps) => figure(bps, "bit/s");
export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  for (const [unit, least] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (bytes >= least) return `${(bytes / least).toFixed(bytes >= 10 * least ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(bytes)} B`;
}

const UNITS_OF_TIME = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

// A time with three digits. `range`: the longest of several times that have one unit.
export function duration(timeS, range = timeS) {
  if (timeS === null || timeS === undefined) return "–";
  const [size, unit] = UNITS_OF_TIME.find(([least]) => Math.abs(range) >= least) ?? (range ? [1e-6, "µs"] : [1, "s"]);
  return `${Number((timeS / size).toPrecision(3))} ${unit}`;
}

export function clock(timeS, isVirtual) {
  if (isVirtual) return duration(timeS);
  return new Date(1000 * timeS).toLocaleTimeString("en-GB");
}

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") || name.startsWith("data-")) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
