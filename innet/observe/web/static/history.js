// The frames and events that the page has: from the server, or from a file.

const KEPT_S = 600;
const FORMAT = "innet recording";
const VERSION = 1;
const MOST_NODES = 20000;
const VIEW = "view";
const CLOSING_KINDS = ["run_ended", "view_failed"];

export class NotARecording extends Error {}

const isFinite_ = (value) => typeof value === "number" && Number.isFinite(value);
const list = (value) => (Array.isArray(value) ? value : []);
const text = (value) => String(value ?? "");

// Checks what the page relies on; everything else is shown as text.
export function checkedPicture(given) {
  if (given === null || typeof given !== "object" || given.format !== FORMAT) {
    throw new NotARecording("This is no recording of innet. Choose a file that this page exported.");
  }
  if (given.version !== VERSION) {
    throw new NotARecording(`This recording has version ${text(given.version)}; this page reads version ${VERSION}. Open it with the innet that wrote it.`);
  }
  const nodes = list(given.nodes);
  const isNode = (n) => n && typeof n.name === "string" && isFinite_(n.x) && isFinite_(n.y);
  const isEnd = (i) => Number.isInteger(i) && i >= 0 && i < nodes.length;
  const links = list(given.links);
  if (nodes.length > MOST_NODES || !nodes.every(isNode) || !links.every((l) => l && isEnd(l.a) && isEnd(l.b))) {
    throw new NotARecording("The recording's list of nodes or links is damaged. Export it again.");
  }
  return {...given, run: text(given.run), topology: text(given.topology), mode: text(given.mode), nodes, links};
}

function checkedFrame(given) {
  const columns = (table) => Object.fromEntries(Object.entries(table ?? {}).map(
    ([name, column]) => [name, list(column).map((v) => (isFinite_(v) ? v : null))]));
  return {
    time: given.time_s,
    states: Object.assign(Object.create(null), given.states), // a node may be named "constructor"
    nodes: columns(given.nodes),
    links: columns(given.links),
    cut: new Set(list(given.cut)),
    machines: list(given.machines).map((m) => ({...m, nodes: list(m.nodes), ran: list(m.ran)})),
    late: new Set(list(given.late)),
    waits: list(given.waits),
    jobs: list(given.jobs).map((j) => ({...j, hosts: list(j.hosts), groups: list(j.groups)})),
    findings: list(given.findings),
  };
}

export class History {
  constructor(picture) {
    this.picture = picture;
    this.frames = [];
    this.events = [];
    this.lines = [];
    this.index = new Map(picture.nodes.map((node, i) => [node.name, i]));
    this.busiest = 1;
    this.closing = null;
    // Counts also what is forgotten: lists that are full keep their lengths.
    this.added = 0;
  }

  // Adds one line of a recording; whether it was a frame.
  add(line) {
    const given = JSON.parse(line);
    this.added += 1;
    if (given.frame && isFinite_(given.frame.time_s)) {
      const frame = checkedFrame(given.frame);
      this.frames.push(frame);
      for (const bps of frame.links.bps ?? []) if (bps > this.busiest) this.busiest = bps;
      this.lines.push([frame.time, line]);
    } else if (given.event && isFinite_(given.event.time_s)) {
      const {time_s: time, source, kind, message, alarming} = given.event;
      const event = {time, source: text(source), kind: text(kind), message: text(message), alarming: alarming === true};
      this.events.push(event);
      if (event.source === VIEW && CLOSING_KINDS.includes(event.kind)) this.closing = event;
      this.lines.push([time, line]);
    }
    if (this.picture.live) this.#forget();
    return Boolean(given.frame);
  }

  #forget() {
    const oldest = this.last - KEPT_S;
    for (const kept of [this.frames, this.events]) while (kept.length > 1 && kept[0].time < oldest) kept.shift();
    while (this.lines.length > 1 && this.lines[0][0] < oldest) this.lines.shift();
  }

  get first() { return this.frames[0]?.time ?? 0; }
  get last() { return this.frames.at(-1)?.time ?? 0; }

  // The last frame at or before a time.
  at(time) {
    let low = 0;
    let high = this.frames.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.frames[middle].time <= time) low = middle;
      else high = middle - 1;
    }
    return this.frames[low];
  }

  rate(link) { return this.picture.links[link].rate_bps || this.busiest; }

  use(frame, direction) {
    const bps = frame?.links.bps?.[direction];
    return bps === null || bps === undefined ? null : bps / this.rate(direction >> 1);
  }

  export() {
    const picture = {...this.picture, live: false, commands: false};
    return [JSON.stringify(picture), ...this.lines.map(([, line]) => line), ""].join("\n");
  }
}

export function fromFile(content) {
  const lines = content.split("\n").filter((line) => line.trim());
  let picture;
  try {
    picture = JSON.parse(lines[0] ?? "null");
  } catch {
    throw new NotARecording("This is no recording of innet. Choose a file that this page exported.");
  }
  const history = new History(checkedPicture({...picture, live: false, commands: false}));
  lines.slice(1).forEach((line, number) => {
    try {
      history.add(line);
    } catch {
      throw new NotARecording(`Line ${number + 2} of the recording is damaged. Export it again.`);
    }
  });
  return history;
}
