// The network on a canvas: nodes and links in a layer that changes with frames, and dots that move.

import {quadtree, select, zoom, zoomIdentity} from "/vendor/libraries.js";
import {Labels} from "/labels.js";
import {paintBars, paintLinkMark, paintNodeSign} from "/marks.js";
import {shownState, stateOf, STATES} from "/states.js";
import {byId, colour} from "/texts.js";

const USE_BOUNDS = [0.01, 0.2, 0.5, 0.8, 0.95];
const WIDTHS = [1, 1.6, 2.1, 2.6, 3.2, 4];
const MARGIN = 50;
const DENSE_NODES = 150;
const LEAST_LEGEND_HEIGHT = 40;
const MOST_SPACING = 150;
const NEAR_PX = 16;
const DOT_SPEED = [0, 26, 44, 70, 100, 130];
const MOTION_MS = 25;
const MOTION_PART = 4;

export function useClass(use) {
  let found = 0;
  while (found < USE_BOUNDS.length && use >= USE_BOUNDS[found]) found += 1;
  return found;
}

export class NetworkView {
  constructor(canvas, onSelect, onHover) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.layer = document.createElement("canvas");
    this.transform = zoomIdentity;
    this.onSelect = onSelect;
    this.onHover = onHover;
    this.selection = null;
    this.history = null;
    this.frame = null;
    this.isStale = true;
    this.isScheduled = false;
    this.moves = true;
    this.drawn = 0;
    this.labels = new Labels(this);
    this.#listen();
    new ResizeObserver(() => this.#resize()).observe(canvas);
  }

  show(history) {
    this.history = history;
    this.frame = this.access = this.places = null;
    this.labels.show();
    this.#resize();
    this.reset();
  }

  update(frame, selection, moves) {
    if (this.frame === frame && this.selection === selection && this.moves === moves) return;
    this.frame = frame;
    this.selection = selection;
    this.moves = moves;
    this.#change();
  }

  themeChanged() {
    this.colours = null;
    this.#change();
  }

  reset() { select(this.canvas).call(this.zoom.transform, zoomIdentity); }

  scaleBy(factor) { select(this.canvas).call(this.zoom.scaleBy, factor); }

  // Brings a node into the picture when a key or a name has selected it.
  reveal(index) {
    const [x, y] = this.place(index);
    if (x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20) return;
    const node = this.history.picture.nodes[index];
    select(this.canvas).call(this.zoom.translateTo, ...this.#base(node));
  }

  #listen() {
    this.zoom = zoom().scaleExtent([0.5, 60]).clickDistance(4).on("zoom", ({transform}) => {
      this.transform = transform;
      this.#change();
    });
    select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.canvas.addEventListener("click", (event) => this.onSelect(this.hit(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) this.onHover(this.hit(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    });
    this.canvas.addEventListener("pointerleave", () => this.onHover(null, 0, 0));
  }

  #resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    for (const canvas of [this.canvas, this.layer]) {
      canvas.width = Math.max(1, Math.round(this.width * ratio));
      canvas.height = Math.max(1, Math.round(this.height * ratio));
    }
    this.ratio = ratio;
    if (this.history) this.#fit();
    this.#change();
  }

  #fit() {
    const {nodes} = this.history.picture;
    const xs = nodes.map((n) => n.x);
    const ys = nodes.map((n) => n.y);
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
    this.size = Math.max(1, Math.min(1.7, this.width / 1100));
    const margin = MARGIN * Math.min(1.4, this.size);
    const width = Math.max(50, this.width - 2 * margin);
    this.legendHeight = Math.max(LEAST_LEGEND_HEIGHT, byId("legend").offsetHeight + 8);
    const height = Math.max(50, this.height - 2 * margin - this.legendHeight);
    const sx = Math.min(MOST_SPACING, width / Math.max(1e-9, right - left));
    const sy = Math.min(MOST_SPACING, height / Math.max(1e-9, bottom - top));
    this.scale = {x: Math.min(sx, 4 * sy), y: Math.min(sy, 4 * sx)};
    this.middle = {x: (left + right) / 2, y: (top + bottom) / 2};
    this.isDense = nodes.length > DENSE_NODES;
    this.font = Math.round(12 * Math.min(1.25, this.size));
  }

  #base(node) {
    return [
      this.width / 2 + (node.x - this.middle.x) * this.scale.x,
      (this.height - this.legendHeight) / 2 + (node.y - this.middle.y) * this.scale.y,
    ];
  }

  place(index) { return this.transform.apply(this.#base(this.history.picture.nodes[index])); }

  radius(node) {
    const room = Math.min(this.scale.x, 2 * this.scale.y) * this.transform.k;
    const wanted = node.kind === "switch" ? 0.3 * room + 3 : 0.26 * room;
    const most = (node.kind === "switch" ? 17 : 12) * this.size;
    return Math.max(node.kind === "switch" ? 4 : 2.2, Math.min(wanted, most));
  }

  hit(x, y) {
    if (!this.places) return null;
    const index = this.tree.find(x, y, NEAR_PX);
    if (index !== undefined) return {kind: "node", index};
    return this.#hitLink(x, y);
  }

  #hitLink(x, y) {
    let best = null;
    let nearest = 6;
    this.history.picture.links.forEach(({a, b}, index) => {
      const [ax, ay] = this.places[a];
      const [bx, by] = this.places[b];
      const [dx, dy] = [bx - ax, by - ay];
      const t = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
      const distance = Math.hypot(x - ax - t * dx, y - ay - t * dy);
      if (distance < nearest) [nearest, best] = [distance, {kind: "link", index}];
    });
    return best;
  }

  // Milliseconds that one picture takes, with a frame's change: the mean of several.
  measure(pictures) {
    const began = performance.now();
    for (let i = 0; i < pictures; i += 1) this.#paint(began + 33 * i, true);
    this.context.getImageData(0, 0, 1, 1);
    return (performance.now() - began) / pictures;
  }

  // The nearest node in a direction, for the arrow keys.
  neighbour(index, dx, dy) {
    let best = index;
    let least = Infinity;
    const [x, y] = this.places[index];
    this.places.forEach(([px, py], other) => {
      const along = (px - x) * dx + (py - y) * dy;
      const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (along > 0.5 && along + 2.5 * across < least) [least, best] = [along + 2.5 * across, other];
    });
    return best;
  }

  #change() {
    this.isStale = true;
    this.#schedule();
  }

  // Nothing runs while nothing moves; browsers call no frame of a page that is hidden.
  #schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame((now) => this.#tick(now));
  }

  #tick(now) {
    this.isScheduled = false;
    if (!this.history || !this.frame) return;
    const began = performance.now();
    this.#paint(now, this.isStale);
    if (!this.moves || this.dots.length === 0) return;
    // 30 pictures a second, or fewer where motion would take more than a fifth of the time of a
    // page whose network may run on the same machine.
    const took = performance.now() - began;
    const rest = this.history.picture.live ? MOTION_PART * took : 0;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#schedule(), Math.max(MOTION_MS - took, rest));
  }

  #paint(now, isChanged) {
    if (isChanged) this.#paintLayer();
    this.isStale = false;
    const c = this.context;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    c.drawImage(this.layer, 0, 0);
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.#paintDots(c, now / 1000);
    this.drawn += 1;
  }

  #colours() {
    const names = ["node", "node-line", "dot", "gone", "late", "text", "soft", "accent", "surface", "bar-1", "bar-2", "bar-3"];
    this.colours ??= {
      ...Object.fromEntries(names.map((name) => [name, colour(name)])),
      use: WIDTHS.map((_, i) => colour(`use-${i}`)),
    };
    return this.colours;
  }

  #paintLayer() {
    const {nodes} = this.history.picture;
    this.places = nodes.map((_, index) => this.place(index));
    this.hostRadius = this.radius({kind: "host"});
    this.tree = quadtree().x((i) => this.places[i][0]).y((i) => this.places[i][1]).addAll(nodes.map((_, i) => i));
    const c = this.layer.getContext("2d");
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    this.#paintLinks(c, this.#colours());
    this.#paintNodes(c, this.#colours());
  }

  // The ends of a direction's line, beside that of the other direction.
  #line(direction) {
    const {a, b} = this.history.picture.links[direction >> 1];
    const [from, to] = direction % 2 ? [this.places[b], this.places[a]] : [this.places[a], this.places[b]];
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy) || 1;
    const aside = this.isDense && this.transform.k < 3 ? 0.6 : 2.4;
    const [ox, oy] = [(-dy / length) * aside, (dx / length) * aside];
    return {x: from[0] + ox, y: from[1] + oy, dx, dy, length};
  }

  // The part of a line that no node covers.
  #between(line, direction) {
    const {links, nodes} = this.history.picture;
    const {a, b} = links[direction >> 1];
    const [from, to] = (direction % 2 ? [b, a] : [a, b]).map((index) => Math.min(0.45, (this.radius(nodes[index]) + 2) / line.length));
    const part = 1 - from - to;
    return {x: line.x + from * line.dx, y: line.y + from * line.dy, dx: part * line.dx, dy: part * line.dy, length: part * line.length};
  }

  #isVisible({x, y, dx, dy}) {
    return Math.max(x, x + dx) > 0 && Math.max(y, y + dy) > 0 && Math.min(x, x + dx) < this.width && Math.min(y, y + dy) < this.height;
  }

  #paintLinks(c, colours) {
    const {links, nodes} = this.history.picture;
    const paths = WIDTHS.map(() => new Path2D());
    const down = new Path2D();
    const marks = [];
    this.dots = [];
    for (let direction = 0; direction < 2 * links.length; direction += 1) {
      const link = direction >> 1;
      const line = this.#line(direction);
      if (!this.#isVisible(line)) continue;
      const ends = [nodes[links[link].a].name, nodes[links[link].b].name];
      const isDown = this.frame.cut.has(link) || ends.some((name) => stateOf(this.frame, name) === STATES.lost);
      const use = isDown ? 0 : this.history.use(this.frame, direction) ?? 0;
      const level = useClass(use);
      const path = isDown ? down : paths[level];
      path.moveTo(line.x, line.y);
      path.lineTo(line.x + line.dx, line.y + line.dy);
      if (level > 0) this.dots.push({...this.#between(line, direction), level, phase: (direction * 0.618) % 1});
      if (!isDown) this.#mark(marks, direction, line);
      else if (direction % 2 === 0 && this.frame.cut.has(link)) marks.push({kind: "cut", x: line.x + line.dx / 2, y: line.y + line.dy / 2});
    }
    const thin = this.isDense ? 0.55 : 1;
    paths.forEach((path, level) => {
      c.globalAlpha = level === 0 && this.isDense ? 0.55 : 1;
      c.strokeStyle = colours.use[level];
      c.lineWidth = WIDTHS[level] * thin;
      c.stroke(path);
    });
    c.globalAlpha = 1;
    c.strokeStyle = colours.gone;
    c.lineWidth = 1.4 * thin;
    c.setLineDash([5, 5]);
    c.stroke(down);
    c.setLineDash([]);
    for (const mark of marks) paintLinkMark(c, mark, this.hostRadius, colours);
    this.#paintSelectedLink(c, colours);
  }

  #mark(marks, direction, line) {
    const {queue_bytes: depth, drops_per_s: drops} = this.frame.links;
    const capacity = this.history.picture.links[direction >> 1].queue_bytes || Infinity;
    const at = Math.min(0.35, 26 / line.length);
    const spot = {x: line.x + at * line.dx, y: line.y + at * line.dy};
    if ((drops?.[direction] ?? 0) > 0) marks.push({kind: "drops", ...spot});
    else if ((depth?.[direction] ?? 0) > 0.2 * capacity) marks.push({kind: "queue", ...spot});
  }

  #paintSelectedLink(c, colours) {
    if (this.selection?.kind !== "link") return;
    const {a, b} = this.history.picture.links[this.selection.index];
    c.strokeStyle = colours.accent;
    c.globalAlpha = 0.35;
    c.lineWidth = 12;
    c.beginPath();
    c.moveTo(...this.places[a]);
    c.lineTo(...this.places[b]);
    c.stroke();
    c.globalAlpha = 1;
  }

  #paintNodes(c, colours) {
    this.history.picture.nodes.forEach((node, index) => {
      const [x, y] = this.places[index];
      if (x < -40 || y < -40 || x > this.width + 40 || y > this.height + 40) return;
      this.#paintNode(c, node, index, this.radius(node), colours);
    });
    this.labels.paint(c, colours);
  }

  #paintNode(c, node, index, r, colours) {
    const place = this.places[index];
    const state = shownState(this.frame, node.name);
    const isUp = stateOf(this.frame, node.name) === STATES.up;
    paintNodeSign(c, place, r, node.kind, state, colours);
    if (isUp && node.kind === "switch" && r >= 7) paintBars(c, place, r, this.#shares(node, index), colours);
    else if (state === STATES.up && node.kind === "host") this.#paintCore(c, ...place, r, index, colours);
    if (this.#isSelected(node, index)) {
      c.strokeStyle = colours.accent;
      c.lineWidth = 3;
      c.beginPath();
      c.arc(...place, r * (node.kind === "switch" ? 1.42 : 1) + 5, 0, 2 * Math.PI);
      c.stroke();
    }
  }

  #isSelected(node, index) {
    if (this.selection?.kind === "machine") return this.frame.machines.find(({name}) => name === this.selection.name)?.nodes.includes(node.name);
    return this.selection?.kind === "node" && this.selection.index === index;
  }

  #shares(node, index) {
    const {slots_in_use: slots, cache_hit_rate: hits, cpu} = this.frame.nodes;
    return [node.slots ? (slots?.[index] ?? 0) / node.slots : 0, hits?.[index] ?? 0, cpu?.[index] ?? 0];
  }

  // A host's busier direction, inside its circle: visible also where lines are too thin.
  #paintCore(c, x, y, r, index, colours) {
    this.access ??= accessLinks(this.history.picture);
    const link = this.access.get(index);
    if (link === undefined) return;
    const use = Math.max(this.history.use(this.frame, 2 * link) ?? 0, this.history.use(this.frame, 2 * link + 1) ?? 0);
    c.fillStyle = colours.use[useClass(use)];
    c.beginPath();
    c.arc(x, y, Math.max(1.4, 0.6 * r), 0, 2 * Math.PI);
    c.fill();
  }

  #paintDots(c, seconds) {
    if (!this.dots) return;
    c.fillStyle = this.#colours().dot;
    const side = Math.max(1.8, Math.min(3, this.hostRadius / 3));
    const time = this.moves ? seconds : 0;
    for (const {x, y, dx, dy, length, level, phase} of this.dots) {
      const many = this.isDense ? 1 : Math.max(1, Math.min(4, Math.round(length / 70)));
      const step = (time * DOT_SPEED[level]) / length + phase;
      for (let i = 0; i < many; i += 1) {
        const t = (step + i / many) % 1;
        c.fillRect(x + t * dx - side / 2, y + t * dy - side / 2, side, side);
      }
    }
  }
}

function accessLinks(picture) {
  const found = new Map();
  picture.links.forEach(({a, b}, index) => {
    for (const end of [a, b]) if (picture.nodes[end].kind === "host" && !found.has(end)) found.set(end, index);
  });
  return found;
}
