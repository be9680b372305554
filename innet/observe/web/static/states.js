// The states of nodes: their words, whether they need attention, and their signs. Signs differ in form as
// well, for those who cannot tell the colours apart.

const cross = (c, x, y, s) => { c.moveTo(x - s, y - s); c.lineTo(x + s, y + s); c.moveTo(x + s, y - s); c.lineTo(x - s, y + s); };
const bars = (c, x, y, s) => { c.moveTo(x - s / 2, y - s); c.lineTo(x - s / 2, y + s); c.moveTo(x + s / 2, y - s); c.lineTo(x + s / 2, y + s); };
const dot = (c, x, y) => c.arc(x, y, 1.5, 0, 2 * Math.PI);
const slash = (c, x, y, s) => { c.moveTo(x - s, y + s); c.lineTo(x + s, y - s); };
const triangle = (c, x, y, s) => { c.moveTo(x - s, y - s / 1.5); c.lineTo(x + s, y - s / 1.5); c.lineTo(x, y + s); c.closePath(); };
const dots = (c, x, y, s) => [-s, 0, s].forEach((dx) => { c.moveTo(x + dx + 0.8, y); c.arc(x + dx, y, 0.8, 0, 2 * Math.PI); });
const hourglass = (c, x, y, s) => { c.moveTo(x - s, y - s); c.lineTo(x + s, y - s); c.lineTo(x - s, y + s); c.lineTo(x + s, y + s); c.closePath(); };

// An arrow round in a circle.
function round(c, x, y, s) {
  c.arc(x, y, s, -0.3 * Math.PI, 1.2 * Math.PI);
  c.moveTo(x + 0.6 * s - 0.7 * s, y - 0.8 * s - 0.5 * s);
  c.lineTo(x + 0.6 * s, y - 0.8 * s);
  c.lineTo(x + 0.6 * s - 0.9 * s, y - 0.8 * s + 0.5 * s);
}

// Without a prototype: a state in a file may be called "constructor".
export const STATES = Object.assign(Object.create(null), {
  up: {about: "up"},
  off: {about: "no process runs there", isQuiet: true},
  ended: {about: "ended with the network", isQuiet: true},
  starting: {about: "starting", word: "starting", colour: "soft", sign: dots},
  lost: {about: "lost: its process or its machine is gone", word: "lost", isBad: true, sign: cross},
  restarting: {about: "its process ended, and is started again", word: "restarting", isBad: true, sign: round},
  restarted: {about: "its process ended less than a minute ago; it runs again", word: "restarted", colour: "late", sign: round},
  silent: {about: "runs, and does not answer", word: "silent", isBad: true, sign: dot},
  stopped: {about: "stopped by a signal", word: "stopped", isBad: true, sign: bars},
  starved: {about: "waits for a processor most of the time", word: "starved", colour: "late", sign: triangle},
  cut: {about: "runs, and none of its links carries anything", word: "cut off", isBad: true, sign: slash},
});
export const LATE = {about: "late", word: "late", colour: "late", sign: hourglass};

// Recordings of earlier versions call lost nodes gone.
export const stateOf = (frame, name) => STATES[frame.states[name] ?? "up"] ?? STATES[frame.states[name] === "gone" ? "lost" : "up"];

// The state to show: that of a node that others wait for is late.
export function shownState(frame, name) {
  const state = stateOf(frame, name);
  return frame.late.has(name) && !state.isBad ? LATE : state;
}
