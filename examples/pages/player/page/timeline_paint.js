// Painting of timelines: rows with their hatched bubble, cells, messages, the axis, and above them
// the cursor and marked cells. Not here: cells (timeline_cells.js).

const messageColour = (data, i) => isCollective(data.op[i]) ?
    ({[REDUCE]: 'reductions', [NORM]: 'norms', [GATHER]: 'gathers'})[data.op[i]] :
    [
      'norms', 'activations', 'activation-gradients', 'gradient-sums', 'weights', 'norms', 'turns'
    ][data.what[i]] ||
        'turns';

function paintTimeline(line, moved) {
  const {data} = line, pen = line.base.getContext('2d');
  const [from, to] = moved ? moveTimeline(line, pen) : [0, line.width];
  line.from = line.seconds(Math.max(from, line.left) - 3);
  line.to = line.seconds(Math.min(to, line.right) + 3);
  pen.setTransform(line.scale, 0, 0, line.scale, 0, 0);
  pen.save();
  pen.beginPath();
  pen.rect(from, 0, to - from, line.axisTop);
  pen.rect(0, line.axisTop, line.width, line.height);
  pen.clip();
  pen.clearRect(0, 0, line.width, line.height);
  paintAxis(line, pen);
  paintNames(line, pen);
  const hatch = hatchOf(pen, theme.get('bubble'), line);
  const stuck = hatchOf(pen, theme.get('fault'), line);
  pen.beginPath();
  pen.rect(line.left, 0, line.right - line.left, line.height);
  pen.clip();
  const ends = Math.min(line.x(data.seconds), line.right);
  for (let rank = 0; rank < data.ranks; ++rank) {
    const y = line.rowTop(rank);
    pen.fillStyle = theme.get('lane');
    pen.fillRect(line.left, y, ends - line.left, line.high);
    pen.fillStyle = hatch;
    pen.fillRect(line.left, y, ends - line.left, line.high);
    if (line.options.stopped?.[rank]) paintStuck(line, pen, rank, stuck, ends);
  }
  if (line.gap > 3) paintMessages(line, pen);  // else between rows there is no room
  paintRows(line, pen);
  paintBars(line, pen);
  paintFault(line, pen);
  pen.restore();
  line.painted = {first: line.first, column: line.column};
}

/** Moves the painted rows as the axis did. Returns what is left to paint: [from, to] in pixels. */
function moveTimeline(line, pen) {
  const {painted, left, right, scale} = line, whole = [0, line.width];
  const shift = painted?.column === line.column ? (line.first - painted.first) / scale : NaN;
  if (!(Math.abs(shift) < right - left) || line.sampled || line.options.fault) return whole;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, right - left, line.axisTop);
  pen.clip();
  pen.globalCompositeOperation = 'copy';
  pen.drawImage(line.base, -shift, 0, line.base.width / scale, line.base.height / scale);
  pen.restore();
  return shift > 0 ? [right - shift, right] : [left, left - shift];
}

/** Slanted lines, the sign of idle time, which stay where they are in time. */
function hatchOf(pen, colour, line) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = line.high > 6 ? 8 : 4;
  const ink = tile.getContext('2d');
  ink.strokeStyle = colour;
  ink.lineWidth = line.high > 6 ? 1.4 : 1;
  const n = tile.width;
  ink.beginPath();
  for (const d of [-n, 0, n]) {
    ink.moveTo(d, n);
    ink.lineTo(d + n, 0);
  }
  ink.stroke();
  const pattern = pen.createPattern(tile, 'repeat');
  pattern.setTransform(new DOMMatrix([1, 0, 0, 1, (line.left - line.first / line.scale) % n, 0]));
  return pattern;
}

/** Lines from sends to receives; in dense pictures none, as they would hide the cells. */
function paintMessages(line, pen) {
  const {data, clock} = line;
  const perPixel = data.op.length / data.ranks / (line.right - line.left) *
      (clock.to - clock.from) / clock.seconds;
  if (perPixel > 0.6) return;
  pen.lineWidth = 1.2;
  for (let rank = 0; rank < data.ranks; ++rank)
    for (const i of data.sends[rank]) {
      if (data.end[i] < line.from || data.start[i] > line.to) continue;
      strokeMessage(line, pen, i, rank);
    }
}

function strokeMessage(line, pen, i, rank) {
  const {data} = line, to = data.peer[i], down = to > rank;
  const y0 = line.rowTop(rank) + (down ? line.high : 0),
        y1 = line.rowTop(to) + (down ? 0 : line.high);
  const x0 = line.x(data.start[i]), x1 = line.x(data.end[i]);
  pen.strokeStyle = theme.get(messageColour(data, i));
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(Math.max(x1, x0 + 2), y1);
  pen.stroke();
}

/** The two bars of an endless plan, where each rank passes them. */
function paintBars(line, pen) {
  pen.fillStyle = theme.get('bar');
  line.data.bars.forEach((moments, rank) => {
    for (const moment of moments)
      pen.fillRect(line.x(moment) - 1, line.rowTop(rank) - line.gap / 2, 2, line.high + line.gap);
  });
}

/** Where a rank of a broken plan stands still. */
function paintStuck(line, pen, rank, pattern, ends) {
  const cells = line.data.computes[rank];
  const last = cells.length ? line.x(line.data.end[cells[cells.length - 1]]) : line.left;
  pen.save();
  pen.globalAlpha = 0.55;
  pen.fillStyle = pattern;
  pen.fillRect(last, line.rowTop(rank), Math.max(line.right - last, 0), line.high);
  pen.restore();
}

function paintFault(line, pen) {
  const {fault} = line.options;
  if (!fault || fault.rank < 0) return;
  const {data} = line, cells = data.computes[fault.rank];
  const last = cells.length ? data.end[cells[cells.length - 1]] : 0;
  const wide = Math.max(44, fault.label.length * 7.5 + 10);
  const x = Math.min(Math.max(line.x(last) + 2, line.left), line.right - wide - 2);
  const y = line.rowTop(fault.rank);
  pen.fillStyle = theme.get('fault');
  pen.fillRect(x, y, wide, line.high);
  pen.fillStyle = theme.get('fault-ink');
  pen.font = `700 ${Math.min(13, line.high)}px ui-monospace, monospace`;
  pen.textAlign = 'center';
  pen.fillText(fault.label, x + wide / 2, y + line.high / 2 + 4);
  if (!fault.box) return;
  fault.box.style.left =
      Math.min(Math.max(x - 8, 4), line.width - fault.box.offsetWidth - 4) + 'px';
  fault.box.style.top = y + line.high + 6 + 'px';
}

/** The names of rows at the left, their bubbles at the right. */
function paintNames(line, pen) {
  const {data, options} = line, narrow = line.left < 60;
  const step = line.high + line.gap >= 13 ? 1 : Math.ceil(13 / (line.high + line.gap));
  pen.font = `${narrow ? 11 : 12}px system-ui, sans-serif`;
  for (let rank = 0; rank < data.ranks; rank += step) {
    const y = line.rowTop(rank) + line.high / 2 + 4;
    pen.textAlign = 'left';
    pen.fillStyle =
        theme.get(rank === line.rank && document.activeElement === line.host ? 'accent' : 'ink');
    pen.fillText(narrow ? line.name(rank).replace(/^rank /, 'r') : line.name(rank), 2, y);
    const idle = options.idle && options.idle[rank];
    if (typeof idle !== 'number') continue;
    pen.fillStyle = theme.get('dim');
    pen.fillText(
        +(100 * idle).toFixed(idle < 0.0095 ? 1 : 0) + '%' +
            (narrow ? '' : ' ' + (options.idleName || 'bubble')),
        line.right + 6, y);
  }
}

/** The least of 1, 2, 5, 10, 20, ... times a power of ten that is no less than a number. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= least * 0.999999);
}

/** The axis of a timeline or a chart, which has left, right, top, axisTop, clock and options. */
function paintTicks(line, pen) {
  const {clock, options} = line;
  const step = roundStep((clock.to - clock.from) / Math.max(2, (line.right - line.left) / 90));
  pen.font = '11px system-ui, sans-serif';
  pen.textAlign = 'center';
  for (let k = Math.ceil(clock.from / step); k * step <= clock.to + 1e-9; ++k) {
    const x = Math.min(Math.max(line.x(k * step), line.left), line.right - 1);
    pen.fillStyle = theme.get('line');
    pen.fillRect(x, line.top - 4, 1, line.axisTop - line.top + 4);
    pen.fillStyle = theme.get('dim');
    pen.fillText((options.axis || (s => '' + +s.toPrecision(6)))(k * step), x, line.axisTop + 12);
  }
  pen.textAlign = 'left';
  if (line.left > 60) pen.fillText(options.unit || '', 2, line.axisTop + 12);
}

function paintAxis(line, pen) {
  const {clock} = line, wide = clock.to - clock.from;
  paintTicks(line, pen);
  const y = line.axisTop + 22;  // the part of the axis that is shown, to be dragged
  pen.fillStyle = theme.get('lane');
  pen.fillRect(line.left, y, line.right - line.left, 8);
  pen.fillStyle = theme.get(clock.zoomed ? 'dim' : 'line');
  const whole = (line.right - line.left) / clock.seconds;
  pen.fillRect(line.left + clock.from * whole, y, Math.max(wide * whole, 6), 8);
}

function paintCursor(line) {
  const {data, clock} = line, pen = line.over.getContext('2d');
  pen.setTransform(line.scale, 0, 0, line.scale, 0, 0);
  pen.clearRect(0, 0, line.width, line.height);
  pen.save();
  pen.beginPath();
  pen.rect(line.left - 7, 0, line.right - line.left + 14, line.height);
  pen.clip();
  if (line.marked.length) paintPath(line, pen);
  const x = line.x(clock.now);
  pen.fillStyle = theme.get('accent');
  pen.fillRect(x - 1, 0, 2, line.axisTop);
  pen.beginPath();
  pen.arc(x, line.axisTop + 2, 6, 0, 7);
  pen.fill();
  pen.restore();
}

/** A chain of records: outlined cells, joined by lines. */
function paintPath(line, pen) {
  const {data} = line;
  pen.strokeStyle = theme.get('path');
  pen.lineWidth = 2.5;
  let before = null;
  for (const i of line.marked) {
    const rank = rankOf(data, i), y = line.rowTop(rank);
    const x0 = line.x(data.start[i]), x1 = line.x(data.end[i]);
    if (isCompute(data.op[i])) pen.strokeRect(x0, y + 1, Math.max(x1 - x0 - 1, 2), line.high - 2);
    if (before) {  // in a row below its cells, else from edge to edge
      const same = before.rank === rank, down = before.rank < rank;
      pen.beginPath();
      pen.moveTo(before.x, before.y + (same || down ? line.high + (same ? 1 : 0) : 0));
      pen.lineTo(x0, y + (same ? line.high + 1 : down ? 0 : line.high));
      pen.stroke();
    }
    before = {x: x1, y, rank};
  }
}
