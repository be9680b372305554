// The panels beside the network: findings, the selection, jobs and ranks, events.

import {shownState, stateOf} from "/states.js";
import {byId, clock, duration, element, figure, rate, share, size} from "/texts.js";

const MOST_RANKS = 64;
const MOST_EVENTS = 60;

export function showFindings(frame, isLive, isExamined) {
  const cards = frame.findings.map(({problem, remedy, more, level}) => element("div", {class: level === "note" ? "card note" : "card"},
    element("p", {}, ...withCommands(problem)),
    more ? element("p", {class: "more"}, ...withCommands(more)) : null,
    element("p", {class: "step"}, ...withCommands(remedy))));
  const well = element("p", {class: "well"}, isLive ? "Nothing is wrong." : "Nothing was found at this time.");
  const none = isExamined ? well : element("p", {class: "none"}, "innet doctor does not look at this network.");
  replaceIfChanged(byId("findings"), cards.length ? cards : [none]);
  tellOfFindingsBelow();
}

const findingsBelow = () => {
  const end = byId("findings").getBoundingClientRect().bottom + 2;
  return [...byId("findings").children].filter((card) => card.getBoundingClientRect().bottom > end);
};

// The panel is short, and scroll bars may be hidden: words say that more findings follow.
function tellOfFindingsBelow() {
  const below = findingsBelow().length;
  byId("more-findings").hidden = below === 0;
  byId("findings").classList.toggle("cut", below > 0);
  byId("more-findings").textContent = `↓ ${below} more ${below === 1 ? "finding" : "findings"}`;
}

export function watchFindings() {
  byId("findings").addEventListener("scroll", tellOfFindingsBelow);
  byId("more-findings").addEventListener("click", () => findingsBelow()[0]?.scrollIntoView({block: "start"}));
  new ResizeObserver(tellOfFindingsBelow).observe(byId("findings"));
}

// Texts of findings have commands between backticks.
const withCommands = (text) => String(text).split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));

// The section is there where the network has several machines.
export function showMachines(frame, selected, onSelect) {
  byId("machines-section").hidden = frame.machines.length === 0;
  const odd = frame.machines.filter(({state}) => state !== "up");
  const shown = frame.machines.length <= MOST_RANKS ? frame.machines : odd.slice(0, MOST_RANKS);
  const chips = shown.map(({name, address, state, since_s: since, why, nodes, ran}) => {
    const kind = {lost: "bad", starting: "late"}[state] ?? "";
    const about = [`${address || "no address"}, ${state} since ${clock(since, false)}`, why, `nodes: ${nodes.join(", ")}`, ran.length ? `ran there: ${ran.join(", ")}` : ""];
    const word = state === "up" ? "" : ` ${state}`;
    return element("li", {}, element("button", {class: kind, title: about.filter(Boolean).join("\n"), "aria-pressed": String(name === selected), onclick: () => onSelect(name)}, `${name}${word}`));
  });
  const more = frame.machines.length - shown.length;
  replaceIfChanged(byId("machines"), [element("ul", {class: "ranks"}, ...chips), ...(more ? [element("p", {class: "none"}, `${more} more machines`)] : [])]);
}

function machineDetails(name, frame) {
  const machine = frame.machines.find((each) => each.name === name);
  if (!machine) return [element("p", {class: "none"}, `${name} is no machine of the network at this time.`)];
  const {address, state, since_s: since, why, nodes, ran} = machine;
  return [
    element("div", {class: "name"}, `Machine ${name}: ${state}`),
    element("table", {}, element("tbody", {}, row("address", address || "–"), row("since", clock(since, false)), row("nodes", nodes.join(", ")),
      ran.length ? row("ran there", ran.join(", ")) : null, why ? row("why", String(why)) : null)),
  ];
}

export function showJobs(frame, isExamined, onSelect) {
  const waits = new Map();
  for (const wait of frame.waits) waits.set(wait.node, [...(waits.get(wait.node) ?? []), wait]);
  const parts = frame.jobs.flatMap((job) => jobParts(job, frame, waits, onSelect));
  replaceIfChanged(byId("jobs"), parts.length ? parts : [element("p", {class: "none"}, isExamined ? "No job runs." : "Not known of this network.")]);
}

function jobParts(job, frame, waits, onSelect) {
  const title = element("div", {class: "name"}, `${job.name}, ${job.hosts.length} hosts`);
  const groups = job.groups.map((group) => groupPart(group, frame, waits, onSelect));
  return [title, ...(groups.length ? groups : [element("p", {class: "none"}, "No group yet.")])];
}

function groupPart(group, frame, waits, onSelect) {
  const ranks = Array.isArray(group.ranks) ? group.ranks : [];
  const late = ranks.filter((node) => frame.late.has(node));
  const held = ranks.filter((node) => stateOf(frame, node).isBad);
  const blockers = [...late, ...held.filter((node) => !late.includes(node))];
  const waiting = ranks.filter((node) => waits.has(node) && !blockers.includes(node));
  const isOdd = (node) => shownState(frame, node).word !== undefined;
  const shown = ranks.length <= MOST_RANKS ? ranks : ranks.filter(isOdd).slice(0, MOST_RANKS);
  const chips = shown.map((node) => {
    const state = shownState(frame, node);
    const kind = state.isBad ? "bad" : state.word ? "late" : waits.has(node) ? "waits" : "";
    const word = state.word ? ` ${state.word}` : "";
    const operations = (waits.get(node) ?? []).map((w) => `operation ${w.number}: ${w.missing}`).join("\n");
    return element("li", {}, element("button", {class: kind, title: operations, onclick: () => onSelect(node)}, `${ranks.indexOf(node)} ${node}${word}`));
  });
  const joined = group.joined < ranks.length ? `, ${group.joined} joined` : "";
  return element("div", {},
    element("div", {}, `Group ${group.name}: ${ranks.length} ranks, ${group.algorithm}${joined}`),
    blockers.length && waiting.length ? element("div", {class: "name"}, `${waiting.length} ${waiting.length === 1 ? "rank waits" : "ranks wait"} for ${blockers.join(", ")}.`) : null,
    element("ul", {class: "ranks"}, ...chips),
    shown.length && ranks.length > MOST_RANKS ? element("p", {class: "none"}, `${ranks.length - shown.length} more ranks`) : null);
}

export function showEvents(history, time, onSeek) {
  const shown = history.events.filter((event) => event.time <= time + 1).slice(-MOST_EVENTS).reverse();
  const items = shown.map((event) => element("li", {class: event.alarming ? "alarming" : "", onclick: () => onSeek(event.time)},
    element("time", {}, clock(event.time, history.picture.virtual_time)),
    element("span", {}, element("b", {}, `${event.source} ${event.kind.replaceAll("_", " ")} `), event.message)));
  replaceIfChanged(byId("events"), items.length ? items : [element("li", {class: "none"}, "None yet.")]);
}

export function showDetails(selection, history, frame, actions) {
  const box = byId("details");
  if (selection === null) {
    replaceIfChanged(box, [element("p", {class: "none"}, "Click a node or a link; arrow keys select nodes.")]);
  } else if (selection.kind === "machine") {
    replaceIfChanged(box, machineDetails(selection.name, frame));
  } else if (selection.kind === "link") {
    replaceIfChanged(box, linkDetails(selection.index, history, frame));
  } else {
    replaceIfChanged(box, nodeDetails(selection.index, history, frame, actions));
  }
}

const row = (name, value) => element("tr", {}, element("th", {scope: "row"}, name), element("td", {}, value));

function linkDetails(index, history, frame) {
  const {links, nodes} = history.picture;
  const link = links[index];
  const [a, b] = [nodes[link.a].name, nodes[link.b].name];
  const direction = (number, from, to) => {
    const use = history.use(frame, number);
    const known = link.rate_bps ? ` (${share(use)})` : "";
    return [
      row(`${from}→${to}`, `${rate(frame.links.bps?.[number])}${known}`),
      row("queue, drops", `${size(frame.links.queue_bytes?.[number])}, ${figure(frame.links.drops_per_s?.[number])}/s`),
    ];
  };
  return [
    element("div", {class: "name"}, `Link ${a}–${b}`),
    frame.cut.has(index) ? element("p", {class: "card"}, "It carries nothing, although both ends run.") : null,
    element("table", {}, element("tbody", {}, ...direction(2 * index, a, b), ...direction(2 * index + 1, b, a),
      row("rate, delay", `${link.rate_bps ? rate(link.rate_bps) : "not limited"}, ${duration(link.delay_s ?? 0)}`))),
  ].filter(Boolean);
}

function nodeDetails(index, history, frame, actions) {
  const node = history.picture.nodes[index];
  const state = stateOf(frame, node.name);
  const machine = frame.machines.find(({nodes}) => nodes.includes(node.name));
  const value = (column) => frame.nodes[column]?.[index];
  const of = node.kind === "switch"
    ? [row("slots", `${figure(value("slots_in_use"))} of ${figure(node.slots)}`), row("sums", `${figure(value("sums_per_s"))}/s`),
      row("cache", `${size(value("cache_bytes"))}, ${share(value("cache_hit_rate"))} hits`)]
    : [row("fetches", rate(value("fetched_bps")))];
  const waits = frame.waits.filter((wait) => wait.node === node.name)
    .map((wait) => row(`operation ${wait.number}`, String(wait.missing || "in progress")));
  return [
    element("div", {class: "name"}, `${node.kind === "switch" ? "Switch" : "Host"} ${node.name}: ${state.about}${frame.late.has(node.name) ? ", late" : ""}`),
    element("table", {}, element("tbody", {}, machine ? row("machine", `${machine.name} (${machine.address || "no address"}), ${machine.state}`) : null, row("CPU", share(value("cpu"))), row("memory", size(value("memory_bytes"))), ...of,
      row("pending Interests", figure(value("pending"))), row("refused packets", `${figure(value("refused_per_s"))}/s`), ...waits)),
    history.picture.commands ? element("div", {class: "actions"}, ...actions.map(([label, action]) =>
      element("button", {disabled: (frame.states[node.name] ?? "up") !== "up", onclick: () => action(node.name)}, label))) : null,
  ].filter(Boolean);
}

// Keeps what is there when nothing changed: focus and a text selection survive.
function replaceIfChanged(box, children) {
  const next = element("div", {}, ...children);
  const same = box.childNodes.length === children.length && [...box.childNodes].every((old, i) => old.isEqualNode(children[i]));
  if (same) return;
  const focused = box.contains(document.activeElement) ? document.activeElement.textContent : null;
  box.replaceChildren(...next.childNodes);
  if (focused !== null) [...box.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
}
