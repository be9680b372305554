// The page: connects, keeps what is shown (a time and a selection), and passes it to its parts.

import {Charts} from "/charts.js";
import {checkedPicture, fromFile, History, NotARecording} from "/history.js";
import {NetworkView} from "/network.js";
import {showDetails, showEvents, showFindings, showJobs, showMachines, watchFindings} from "/panels.js";
import {enter, LineStream, request} from "/session.js";
import {LATE, stateOf, STATES} from "/states.js";
import {byId, clock, colour, element, rate, share} from "/texts.js";

const MODES = {live: ["live", ""], paused: ["paused", "paused"], recording: ["recording", "paused"], lost: ["connection lost", "lost"]};
const CLOSINGS = {run_ended: ["ended", "paused"], view_failed: ["not followed", "lost"]};
const STEP_S = 1;
const LONGEST_PLAY_S = 20;

const REDUCED_MOTION = matchMedia("(prefers-reduced-motion: reduce)");

let history = null;
let stream = null;
let mode = "live";
let time = 0;
let selection = null;
let announced = "";
let isScheduled = false;
let rendered = [];
let playing = null;

const network = new NetworkView(byId("canvas"), (found) => choose(found), hover);
const charts = new Charts(byId("charts"), seek);
// For tests and for scripts of a browser's console.
window.innet = {network, get history() { return history; }, get frame() { return shownFrame(); }, get mode() { return mode; }};

function tell(message) {
  byId("message").textContent = message;
  byId("message").hidden = !message;
}

async function connect() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  window.history.replaceState(null, "", "/");
  const refusal = await enter(token);
  if (refusal !== null) return tell(refusal);
  const answer = await request("/picture");
  const document_ = await answer.json();
  if (!answer.ok) return tell(document_.error);
  show(new History(checkedPicture(document_)));
  follow();
}

function follow() {
  stream = new LineStream(addLines, () => {
    if (history.picture.live && mode !== "paused") setMode("lost");
  }, tell);
}

function addLines(lines) {
  for (const line of lines) history.add(line);
  if (mode === "lost") setMode("live");
  if (history.closing) showClosing();
  if (mode === "live" || (mode === "recording" && time === 0)) time = mode === "live" ? history.last : history.first;
  schedule();
}

// The server has said why nothing more comes.
function showClosing() {
  stream.close();
  tell(history.closing.message);
  setMode(mode);
}

function show(made) {
  history = made;
  selection = null;
  playing = null;
  time = history.picture.live ? history.last : history.first;
  const {run, topology, mode: how, nodes, links} = history.picture;
  document.title = `${run} – innet`;
  byId("title").textContent = run;
  byId("about").textContent = `${topology}, ${how}, ${nodes.length} nodes, ${links.length} links`;
  byId("names").replaceChildren(...nodes.map(({name}) => element("option", {value: name})));
  network.show(history);
  makeCharts();
  setMode(history.picture.live ? "live" : "recording");
}

function setMode(next) {
  mode = next;
  const [word, kind] = (mode === "live" && CLOSINGS[history.closing?.kind]) || MODES[mode];
  byId("mode").textContent = word;
  byId("mode").className = `pill ${kind}`;
  const runs = playing !== null || mode === "live" || mode === "lost";
  byId("pause").textContent = runs ? "Pause" : mode === "recording" ? "Play" : "Live";
  byId("pause").setAttribute("aria-pressed", String(mode === "paused"));
  schedule();
}

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => { isScheduled = false; render(); });
}

function shownFrame() { return history?.frames.length ? history.at(time) : null; }

// Plays a recording in the time it took, or in less where that is long; virtual time always in less.
function play() {
  if (time >= history.last) time = history.first;
  const span = history.last - history.first;
  const playS = history.picture.virtual_time ? LONGEST_PLAY_S : Math.min(LONGEST_PLAY_S, span);
  if (span > 0) playing = {from: time, began: performance.now(), speed: span / playS};
  setMode(mode);
}

function stopPlaying() {
  if (!playing) return;
  playing = null;
  setMode(mode);
}

function playOn() {
  time = Math.min(history.last, playing.from + playing.speed * (performance.now() - playing.began) / 1000);
  if (time >= history.last) stopPlaying();
  else schedule();
}

function render() {
  if (playing) playOn();
  const frame = shownFrame();
  if (!frame) return;
  const shown = [frame, selection, mode, history, history.added];
  if (shown.every((value, i) => value === rendered[i])) return;
  rendered = shown;
  byId("clock").textContent = clock(frame.time, history.picture.virtual_time);
  byId("clock").dateTime = history.picture.virtual_time ? "" : new Date(1000 * frame.time).toISOString();
  network.update(frame, selection, mode !== "paused" && !REDUCED_MOTION.matches);
  showFindings(frame, mode === "live", history.picture.examined);
  showMachines(frame, selection?.kind === "machine" ? selection.name : null, (name) => choose({kind: "machine", name}));
  showJobs(frame, history.picture.examined, chooseNode);
  showEvents(history, frame.time, seek);
  showDetails(selection, history, frame, history.picture.commands ? ACTIONS : []);
  showTimeline(frame);
  charts.update(frame.time);
  announce(frame);
}

function announce(frame) {
  const words = frame.findings[0]?.problem ?? history.events.findLast((e) => e.alarming && e.time <= frame.time)?.message ?? "";
  if (words !== announced) byId("status").textContent = announced = String(words);
}

function showTimeline(frame) {
  const scrub = byId("scrub");
  const span = Math.max(1e-9, history.last - history.first);
  scrub.max = "1000";
  if (document.activeElement !== scrub || mode === "live") scrub.value = String(Math.round(1000 * (frame.time - history.first) / span));
  scrub.setAttribute("aria-valuetext", clock(frame.time, history.picture.virtual_time));
  const canvas = byId("marks");
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  const x = (at) => 8 + (canvas.clientWidth - 16) * (at - history.first) / span;
  for (const event of history.events) {
    c.fillStyle = colour(event.alarming ? "gone" : "soft");
    if (event.alarming) { c.beginPath(); c.moveTo(x(event.time), 1); c.lineTo(x(event.time) + 5, 13); c.lineTo(x(event.time) - 5, 13); c.fill(); }
    else c.fillRect(x(event.time) - 1, 5, 2, 9);
  }
}

function seek(to) {
  stopPlaying();
  time = Math.min(history.last, Math.max(history.first, to));
  if (mode !== "recording") setMode("paused");
  schedule();
}

function togglePause() {
  if (mode === "recording") (playing ? stopPlaying : play)();
  else if (mode === "paused") { time = history.last; setMode("live"); } else { time = history.last; setMode("paused"); }
}

function choose(found) {
  if (found?.kind === selection?.kind && found?.index === selection?.index && found?.name === selection?.name) return;
  selection = found;
  makeCharts();
}

// New charts are empty until they are rendered.
function makeCharts() {
  charts.show(selection, history);
  renderAgain();
}

function chooseNode(name) {
  const index = history.index.get(name);
  if (index === undefined) return;
  choose({kind: "node", index});
  network.reveal(index);
}

function hover(found, x, y) {
  const hint = byId("hint");
  const frame = shownFrame();
  hint.hidden = !found || !frame;
  if (hint.hidden) return;
  hint.textContent = found.kind === "node" ? nodeHint(found.index, frame) : linkHint(found.index, frame);
  const room = byId("network");
  hint.style.left = `${Math.min(x + 14, room.clientWidth - hint.offsetWidth - 6)}px`;
  hint.style.top = `${Math.min(y + 14, room.clientHeight - hint.offsetHeight - 6)}px`;
}

function nodeHint(index, frame) {
  const node = history.picture.nodes[index];
  const late = frame.late.has(node.name) ? ", late" : "";
  return `${node.kind} ${node.name}: ${stateOf(frame, node.name).about}${late}\nCPU ${share(frame.nodes.cpu?.[index])}`;
}

function linkHint(index, frame) {
  const {links, nodes} = history.picture;
  const [a, b] = [nodes[links[index].a].name, nodes[links[index].b].name];
  if (frame.cut.has(index)) return `${a}–${b}: carries nothing`;
  return `${a}→${b} ${rate(frame.links.bps?.[2 * index])}\n${b}→${a} ${rate(frame.links.bps?.[2 * index + 1])}`;
}

// Commands, each behind a confirmation.
const ACTIONS = [
  ["Report more often…", (node) => command(node, {kind: "set_interval", interval_s: 0.5}, `Let ${node} publish counters every 0.5 s?`, "It costs the node a little more processor time. innet tell sets it back.")],
  ["Drop cache…", (node) => command(node, {kind: "drop_cache"}, `Empty the cache of ${node}?`, "What it cached is fetched again from its producers.")],
  ["Dump state…", (node) => command(node, {kind: "dump_state"}, `Ask ${node} for its whole state?`, "It is shown here, and changes nothing.")],
];

function ask(title, body, confirm = "Confirm") {
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...body);
  byId("dialog-confirm").textContent = confirm;
  byId("dialog-cancel").hidden = confirm === "Close";
  const dialog = byId("dialog");
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirm"), {once: true}));
}

async function command(node, order, question, consequence) {
  if (!await ask(question, [element("p", {}, consequence)])) return;
  const answer = await request("/tell", {method: "POST", body: JSON.stringify({node, command: order})});
  const reply = await answer.json();
  const body = [element("p", {}, String(reply.error ?? reply.message))];
  if (reply.result) body.push(element("pre", {}, JSON.stringify(reply.result, null, 2)));
  await ask(answer.ok ? `${node} answered` : `${node} was not told`, body, "Close");
}

function exportFile() {
  const url = URL.createObjectURL(new Blob([history.export()], {type: "text/plain"}));
  const name = `${history.picture.run.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.innetrec`;
  element("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function openFile() {
  const [file] = byId("file").files;
  byId("file").value = "";
  if (!file) return;
  try {
    const opened = fromFile(await file.text());
    stream?.close();
    tell("");
    show(opened);
  } catch (error) {
    if (!(error instanceof NotARecording)) throw error;
    tell(error.message);
  }
}

function legend() {
  const line = (paint, words) => {
    const canvas = element("canvas", {width: 52, height: 24});
    const c = canvas.getContext("2d");
    c.scale(2, 2);
    paint(c);
    return element("span", {}, canvas, words);
  };
  const stroke = (level, width) => (c) => { c.strokeStyle = colour(`use-${level}`); c.lineWidth = width; c.beginPath(); c.moveTo(0, 6); c.lineTo(26, 6); c.stroke(); };
  const bars = (c) => [1, 2, 3].forEach((i) => { c.fillStyle = colour(`bar-${i}`); c.fillRect(4 + 6 * i - 6, 1, 4, 10); });
  const sign = (name, path) => (c) => { c.strokeStyle = c.fillStyle = colour(name); c.lineWidth = 2; c.beginPath(); path(c); };
  byId("legend").replaceChildren(
    line(stroke(1, 2), "1 %"), line(stroke(2, 2.4), "20 %"), line(stroke(3, 3), "50 %"), line(stroke(4, 3.6), "80 %"), line(stroke(5, 4.4), "95 % of the rate"),
    line(bars, "slots, cache hits, CPU"),
    line(sign("gone", (c) => { c.setLineDash([4, 3]); c.moveTo(0, 6); c.lineTo(26, 6); c.stroke(); c.setLineDash([]); c.beginPath(); c.moveTo(9, 2); c.lineTo(17, 10); c.moveTo(17, 2); c.lineTo(9, 10); c.stroke(); }), "link cut"),
    line(sign("late", (c) => c.fillRect(9, 2, 8, 8)), "queue over 20 %"),
    line(sign("gone", (c) => { c.moveTo(13, 1); c.lineTo(19, 11); c.lineTo(7, 11); c.fill(); }), "drops"),
    line((c) => { c.strokeStyle = colour("soft"); c.setLineDash([2, 2]); c.beginPath(); c.arc(13, 6, 5, 0, 2 * Math.PI); c.stroke(); }, "off"),
    ...[...Object.values(STATES), LATE].filter(({sign: mark}) => mark).map(({word, colour: name, sign: mark}) => line((c) => {
      c.strokeStyle = colour(name ?? "gone");
      c.lineWidth = 1.6;
      c.beginPath();
      mark(c, 13, 6, 4);
      c.stroke();
    }, word)));
}

function help() {
  const keys = [["Space", "pause, or back to now; plays a recording"], [", and .", "one frame back or on"], ["arrows", "select a node, in the network"], ["+ − 0", "zoom, and show everything"],
    ["f", "find a node"], ["Enter", "details of the selection"], ["Escape", "select nothing"], ["drag a chart", "zoom; double click: all"]];
  const rows = keys.map(([key, words]) => element("tr", {}, element("th", {}, key), element("td", {}, words)));
  ask("Keys", [element("table", {}, element("tbody", {}, ...rows)),
    element("p", {}, "Squares are switches, circles are hosts. Dots move in the direction of the traffic.")], "Close");
}

const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

function onCanvasKey(event) {
  if (!history || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key in ARROWS && network.places) {
    const from = selection?.kind === "node" ? network.neighbour(selection.index, ...ARROWS[event.key]) : 0;
    choose({kind: "node", index: from});
    network.reveal(from);
  } else if (event.key === "+" || event.key === "=") network.scaleBy(1.4);
  else if (event.key === "-") network.scaleBy(1 / 1.4);
  else if (event.key === "0") network.reset();
  else if (event.key === "Enter") byId("details-section").focus();
  else return;
  event.preventDefault();
}

function onKey(event) {
  const isTaken = event.key === " " ? "input, dialog, button" : "input[type='search'], dialog";
  const inField = event.target.closest(isTaken) !== null;
  if (!history || inField || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === " ") togglePause();
  else if (event.key === "," || event.key === ".") seek(time + (event.key === "," ? -1 : 1) * frameStep());
  else if (event.key === "f") byId("find").focus();
  else if (event.key === "?") help();
  else if (event.key === "Escape") choose(null);
  else return;
  event.preventDefault();
}

function frameStep() {
  return history.frames.length > 1 ? (history.last - history.first) / (history.frames.length - 1) : STEP_S;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  network.themeChanged();
  legend();
  if (history) makeCharts();
}

function renderAgain() {
  rendered = [];
  schedule();
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", ({matches}) => setTheme(matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
addEventListener("resize", renderAgain);
REDUCED_MOTION.addEventListener("change", renderAgain);
byId("pause").addEventListener("click", togglePause);
byId("export").addEventListener("click", () => history && exportFile());
byId("open").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", openFile);
byId("help").addEventListener("click", help);
watchFindings();
byId("find").addEventListener("change", ({target}) => { chooseNode(target.value); });
byId("scrub").addEventListener("input", ({target}) => history && seek(history.first + (history.last - history.first) * target.value / 1000));
byId("canvas").addEventListener("keydown", onCanvasKey);
document.addEventListener("keydown", onKey);
connect();
