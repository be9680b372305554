// The labels of nodes: none hides another, and those of nodes that need attention come first.

import {shownState} from "/states.js";

const SMALL_NODES = 60;
const MOST_NODES_TO_ALARM = 3000;
const SWITCH_ROOM_PX = 48;
const HOST_ROOM_PX = 30;
const BEYOND_PX = 40;
const MOST_LETTERS = 16;

const isFree = (box, taken) => taken.every((other) => box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top);

// Names often differ in what they end with.
export function shortened(name) {
  const letters = [...name];
  return letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS / 2).join("")}…${letters.slice(1 - MOST_LETTERS / 2).join("")}` : name;
}

export class Labels {
  // `view`: the NetworkView whose nodes have the labels.
  constructor(view) {
    this.view = view;
    this.placed = [];
  }

  show() { this.tierGaps = null; }

  paint(c, colours) {
    const {history, selection, scale, transform} = this.view;
    const {nodes} = history.picture;
    const room = scale.x * transform.k;
    const hostRoom = nodes.length > SMALL_NODES ? Math.min(room, 2 * scale.y * transform.k) : room;
    const isSelected = (index) => selection?.kind === "node" && selection.index === index;
    const all = nodes.map((_, index) => index);
    const needed = new Set(all.filter((index) => isSelected(index) || (this.#isOdd(nodes[index]) && nodes.length < MOST_NODES_TO_ALARM)));
    const usual = all.filter((index) => !needed.has(index) && (nodes[index].kind === "switch" ? this.#hasSwitchRoom(nodes[index].tier) : hostRoom > HOST_ROOM_PX));
    this.placed = [];
    c.textAlign = "center";
    // Labels leave the signs of nodes free: of all nodes where they are few, else of those that need attention.
    const taken = (nodes.length < SMALL_NODES ? all : [...needed]).map((index) => this.#nodeBox(index));
    for (const index of [...needed, ...usual]) this.#paintLabel(c, index, taken, needed.has(index), colours);
  }

  #isOdd({name}) { return shownState(this.view.frame, name).word !== undefined; }

  #nodeBox(index) {
    const [x, y] = this.view.places[index];
    const r = this.view.radius(this.view.history.picture.nodes[index]) + 1;
    return {left: x - r, right: x + r, top: y - r, bottom: y + r};
  }

  // Whether the nearest neighbours in a tier of switches have room for labels.
  #hasSwitchRoom(tier) {
    const {nodes} = this.view.history.picture;
    this.tierGaps ??= tierGaps(nodes);
    return nodes.length < SMALL_NODES || this.tierGaps.get(tier) * this.view.scale.x * this.view.transform.k > SWITCH_ROOM_PX;
  }

  #paintLabel(c, index, taken, isNeeded, colours) {
    const {history, frame, places, width, height, font} = this.view;
    const node = history.picture.nodes[index];
    const [px, py] = places[index];
    if (px < -BEYOND_PX || py < -BEYOND_PX || px > width + BEYOND_PX || py > height + BEYOND_PX) return;
    const isOdd = this.#isOdd(node);
    const state = shownState(frame, node.name);
    const label = state.word ? `${shortened(node.name)} ${state.word}` : shortened(node.name);
    c.font = `${isOdd ? 600 : 400} ${font}px system-ui, sans-serif`;
    const box = this.#labelBox(index, c.measureText(label).width / 2 + 3, taken, isNeeded);
    if (box === null) return;
    taken.push(box);
    this.placed.push({label, box});
    const [x, y] = [(box.left + box.right) / 2, box.bottom - 3];
    c.lineWidth = 3;
    c.strokeStyle = colours.surface;
    c.strokeText(label, x, y);
    c.fillStyle = isOdd ? colours[state.colour ?? "gone"] : colours.text;
    c.fillText(label, x, y);
  }

  // Above a switch or below a host; where that hides something, on another side, or farther.
  #labelBox(index, half, taken, isNeeded) {
    const {nodes} = this.view.history.picture;
    const r = this.view.radius(nodes[index]);
    const height = this.view.font + 3;
    const beside = r + 3 + half;
    const [above, below] = [[0, -r - height / 2 - 4], [0, r + height / 2 + 3]];
    const sides = nodes[index].kind === "switch" ? [above, below] : [below, above];
    const boxesAt = (places) => places.map(([dx, dy]) => this.#boxAt(index, dx, dy, half, height));
    if (!isNeeded) {
      const farther = sides[0].map((distance) => distance + Math.sign(distance) * height);
      const places = nodes.length < SMALL_NODES ? [sides[0], farther] : [sides[0]];
      return boxesAt(places).find((box) => isFree(box, taken)) ?? null;
    }
    const near = boxesAt([...sides, [beside, 0], [-beside, 0]]);
    const free = near.filter((box) => isFree(box, taken));
    if (free.length > 0) return this.#leastHiding(free);
    const rows = [1, 2, 3, 4, 5].flatMap((row) => [row, -row]).flatMap((row) => [[beside, row * height], [-beside, row * height]]);
    return boxesAt(rows).find((box) => isFree(box, taken)) ?? near[0];
  }

  // A label's box beside its node, and within the picture if the node is.
  #boxAt(index, dx, dy, half, height) {
    const {places, width} = this.view;
    const [x, y] = places[index];
    const middle = x > 0 && x < width ? Math.max(half, Math.min(width - half, x + dx)) : x + dx;
    return {left: middle - half, right: middle + half, top: y + dy - height / 2, bottom: y + dy + height / 2};
  }

  #leastHiding(boxes) {
    const counts = boxes.map((box) => this.#countNodes(box));
    return boxes[counts.indexOf(Math.min(...counts))];
  }

  #countNodes({left, right, top, bottom}) {
    const {tree, places, hostRadius: r} = this.view;
    let count = 0;
    tree.visit((part, x0, y0, x1, y1) => {
      if (x0 > right + r || x1 < left - r || y0 > bottom + r || y1 < top - r) return true;
      for (let leaf = part.length ? null : part; leaf; leaf = leaf.next) {
        const [x, y] = places[leaf.data];
        if (x > left - r && x < right + r && y > top - r && y < bottom + r) count += 1;
      }
      return false;
    });
    return count;
  }
}

// By tier of switches, the least distance of neighbours.
function tierGaps(nodes) {
  const rows = new Map();
  for (const {kind, tier, x} of nodes) if (kind === "switch") rows.set(tier, [...(rows.get(tier) ?? []), x]);
  return new Map([...rows].map(([tier, xs]) => {
    xs.sort((a, b) => a - b);
    return [tier, Math.min(...xs.slice(1).map((x, k) => x - xs[k]), Infinity)];
  }));
}
