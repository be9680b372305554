// Time series of the network, or of what is selected, by uPlot. Drag to zoom, double click to reset.

import {uPlot} from "/vendor/libraries.js";
import {clock, colour, duration, element, figure, rate, share, size} from "/texts.js";

const POWERS_OF_TWO = Array.from({length: 48}, (_, i) => 2 ** i);

// Nothing, where no value is known.
const over = (values, combined) => (values?.some((value) => value !== null) ? values.reduce((all, value) => combined(all, value ?? 0), 0) : null);
const sum = (values) => over(values, (a, b) => a + b);
const most = (values) => over(values, Math.max);

// A frame does not change, and a sum over a large network takes long.
function remembered(of) {
  const known = new WeakMap();
  return (frame) => {
    if (!known.has(frame)) known.set(frame, of(frame) ?? null);
    return known.get(frame);
  };
}

// For each chart: its title, how values are written, and its series as functions of a frame.
export function chartsOf(selection, history) {
  const {nodes, links} = history.picture;
  if (selection?.kind === "link") {
    const link = selection.index;
    const [a, b] = [nodes[links[link].a].name, nodes[links[link].b].name];
    const both = (column) => [[`${a}→${b}`, (f) => f.links[column]?.[2 * link]], [`${b}→${a}`, (f) => f.links[column]?.[2 * link + 1]]];
    return [["Rate", rate, both("bps")], ["Queue", size, both("queue_bytes")], ["Dropped packets/s", figure, both("drops_per_s")]];
  }
  const of = (column) => (f) => f.nodes[column]?.[selection.index];
  if (selection?.kind === "node" && nodes[selection.index].kind === "switch") {
    return [
      ["Slots in use", figure, [["slots", of("slots_in_use")]]],
      ["Sums/s", figure, [["sums", of("sums_per_s")]]],
      ["Shares", share, [["cache hits", of("cache_hit_rate")], ["CPU", of("cpu")]]],
    ];
  }
  if (selection?.kind === "node") {
    return [
      ["Fetched", rate, [["fetched", of("fetched_bps")]]],
      ["CPU", share, [["CPU", of("cpu")]]],
      ["Memory", size, [["memory", of("memory_bytes")]]],
    ];
  }
  return [
    ["Traffic of all links", rate, [["sum", (f) => sum(f.links.bps)]]],
    ["Busiest link", rate, [["one direction", (f) => most(f.links.bps)]]],
    ["Queues of all links", size, [["queued", (f) => sum(f.links.queue_bytes)]]],
    ["Dropped packets/s", figure, [["dropped", (f) => sum(f.links.drops_per_s)]]],
    ["Sums of switches/s", figure, [["sums", (f) => sum(f.nodes.sums_per_s)]]],
  ];
}

export class Charts {
  constructor(container, onSeek) {
    this.container = container;
    this.onSeek = onSeek;
    this.plots = [];
    new ResizeObserver(() => this.#resize()).observe(container);
  }

  show(selection, history) {
    for (const {plot} of this.plots) plot.destroy();
    this.history = history;
    this.isZoomed = false;
    this.drawn = null;
    const charts = chartsOf(selection, history).map((chart) => [...chart, element("div", {class: "chart"})]);
    this.container.replaceChildren(...charts.map(([,,, holder]) => holder));
    this.plots = charts.map((chart) => this.#make(...chart));
  }

  #make(title, write, series, holder) {
    const axis = {stroke: colour("soft"), grid: {stroke: colour("line"), width: 1}, ticks: {stroke: colour("line"), size: 4}, font: "11px system-ui, sans-serif"};
    const isVirtual = this.history.picture.virtual_time;
    const plot = new uPlot({
      title,
      ...this.#size(),
      cursor: {sync: {key: "innet"}, drag: {x: true, y: false}},
      scales: {x: {time: !isVirtual}, y: {range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1]}},
      hooks: {
        init: [(u) => { u.line = element("div", {class: "shown"}); u.over.append(u.line); }],
        draw: [(u) => this.#placeShown(u)],
        setSelect: [() => { this.isZoomed = true; }],
        ready: [(u) => u.over.addEventListener("dblclick", () => { this.isZoomed = false; this.update(this.shown); })],
      },
      axes: [{...axis, size: 26, space: 56, values: (_, ticks) => ticks.map((t) => (isVirtual ? duration(t, Math.max(...ticks)) : clock(t, false)))},
        {...axis, size: 68, incrs: write === size ? POWERS_OF_TWO : undefined, values: (_, ticks) => ticks.map((t) => write(t))}],
      series: [{label: "time", value: () => ""}, ...series.map(([label], i) => ({
        label, stroke: colour(`bar-${i + 1}`), width: 1.6, points: {show: false}, dash: i ? [6, 3] : undefined,
        value: (u, v, _, at) => write(at === null || at === undefined ? this.#shownValue(u, i + 1) : v)}))],
      legend: {live: true},
    }, [[], ...series.map(() => [])], holder);
    return {plot, holder, series: series.map(([, of]) => remembered(of))};
  }

  #size() {
    const columns = Math.max(1, this.container.childElementCount);
    return {
      width: Math.max(120, (this.container.clientWidth - 14 * (columns - 1)) / columns),
      height: Math.max(80, this.container.clientHeight - 44),
    };
  }

  // Of the moment that the page shows, while the pointer is elsewhere.
  #shownIndex(u) {
    const at = u.data[0].findLastIndex((time) => time <= this.shown);
    return at < 0 ? null : at;
  }

  #shownValue(u, series) { return u.data[series][this.#shownIndex(u) ?? 0] ?? null; }

  #resize() { for (const {plot} of this.plots) plot.setSize(this.#size()); }

  // A line over the chart: to move it draws nothing again.
  #placeShown(u) {
    const x = this.shown === undefined ? -1 : u.valToPos(this.shown, "x");
    u.line.hidden = !(x >= 0 && x <= u.over.clientWidth + 1);
    u.line.style.transform = `translateX(${x}px)`;
  }

  update(shown) {
    this.shown = shown;
    const {frames} = this.history;
    const drawn = `${frames.length} ${this.history.first} ${this.history.last} ${this.isZoomed}`;
    const times = drawn === this.drawn ? null : frames.map((frame) => frame.time);
    for (const {plot, holder, series} of this.plots) {
      if (times) {
        const figures = series.map((of) => frames.map(of));
        holder.classList.toggle("unknown", figures.every((column) => column.every((value) => value === null)));
        plot.setData([times, ...figures], !this.isZoomed);
      }
      else this.#placeShown(plot);
      if (times && this.isZoomed) plot.redraw(false);
      if (plot.cursor.left < 0) plot.setLegend({idx: this.#shownIndex(plot)}, false);
    }
    this.drawn = drawn;
  }
}
