// Marks on nodes and links. They differ in form as well, for those who cannot tell the colours apart.

// On a link: it is cut, its queue is long, or it drops packets.
export function paintLinkMark(c, {kind, x, y}, hostRadius, colours) {
  // Queues and drops are common where links are many, and would hide them.
  const s = kind === "cut" ? 6 : Math.max(3.2, Math.min(6, 0.6 * hostRadius));
  c.lineWidth = 2.5;
  c.strokeStyle = c.fillStyle = kind === "queue" ? colours.late : colours.gone;
  c.beginPath();
  if (kind === "cut") {
    c.moveTo(x - s, y - s); c.lineTo(x + s, y + s); c.moveTo(x + s, y - s); c.lineTo(x - s, y + s);
    c.stroke();
  } else if (kind === "queue") {
    c.fillRect(x - s / 1.5, y - s / 1.5, s / 0.75, s / 0.75);
  } else {
    c.moveTo(x, y - s); c.lineTo(x + s, y + s / 1.2); c.lineTo(x - s, y + s / 1.2);
    c.fill();
  }
}

// The sign and outline of a node, by its state in STATES.
export function paintNodeSign(c, [x, y], r, kind, state, colours) {
  c.beginPath();
  if (kind === "switch") c.roundRect(x - r, y - r, 2 * r, 2 * r, r / 3.5);
  else c.arc(x, y, r, 0, 2 * Math.PI);
  c.fillStyle = colours.node;
  c.fill();
  c.lineWidth = r < 4 || state.isQuiet ? 1 : 1.6;
  c.strokeStyle = state.isQuiet ? colours.soft : state.sign ? colours[state.colour ?? "gone"] : colours["node-line"];
  if (state.sign) c.lineWidth = r < 4 ? 2 : 3;
  if (state.isQuiet || state.word === "starting") c.setLineDash([2, 2]);
  c.stroke();
  c.setLineDash([]);
  if (!state.sign) return;
  c.strokeStyle = colours[state.colour ?? "gone"];
  c.lineWidth = Math.max(1.5, r / 5);
  c.beginPath();
  state.sign(c, x, y, Math.max(3, 0.5 * r));
  c.stroke();
}

// Inside a switch: shares between 0 and 1.
export function paintBars(c, [x, y], r, shares, colours) {
  const height = 1.3 * r;
  shares.forEach((share, i) => {
    const filled = height * Math.min(1, Math.max(share > 0 ? 0.08 : 0, share));
    const left = x - 0.65 * r + i * 0.48 * r;
    c.fillStyle = colours.use[0];
    c.fillRect(left, y - height / 2, 0.34 * r, height);
    c.fillStyle = colours[`bar-${i + 1}`];
    c.fillRect(left, y + height / 2 - filled, 0.34 * r, filled);
  });
}
