// Cells of a timeline: rectangles with labels or, where many share a few pixels, samples.

const cellColour = (data, i) => {
  const op = data.op[i], shade = ((data.version[i] % 4) + 4) % 4;
  if (op === FORWARD) return 'forward-' + shade;
  if (op === BACKWARD) return 'backward-' + shade;
  if (op === INPUT_PART) return 'input-part-' + shade;
  return op === WEIGHT_PART ? 'weight-part-' + shade : 'update';
};

function paintRows(line, pen) {
  const {data} = line, sampled = [];
  for (let rank = 0; rank < data.ranks; ++rank) {
    const cells = data.computes[rank];
    const first = firstWhere(cells.length, i => data.end[cells[i]] >= line.from);
    const end = firstWhere(cells.length, i => data.start[cells[i]] > line.to);
    if (end - first > (line.to - line.from) / line.column / line.scale / 3) sampled.push(rank);
    else paintCells(line, pen, rank, cells.subarray(first, end));
  }
  line.sampled = sampled.length > 0;
  if (line.sampled) paintSamples(line, pen, sampled);
  for (let rank = 0; rank < data.ranks; ++rank) paintMarks(line, pen, rank);
}

/** Rectangles colour by colour, then what is written on them. */
function paintCells(line, pen, rank, cells) {
  const {data} = line, y = line.rowTop(rank), byColour = new Map(), labels = [];
  for (const i of cells) {
    const x = line.x(data.start[i]), wide = Math.max(line.x(data.end[i]) - x, 0.5);
    if (data.op[i] === UPDATE && wide < 4) continue;  // a mark
    const colour = cellColour(data, i);
    if (!byColour.has(colour)) byColour.set(colour, []);
    byColour.get(colour).push(x, wide, data.again[i]);
    if (wide >= (data.ranks > 32 ? 16 : 9) && line.high >= 11) labels.push(i);
  }
  for (const [colour, boxes] of byColour) {
    pen.fillStyle = theme.get(colour);
    for (let k = 0; k < boxes.length; k += 3) {
      const [x, wide, again] = [boxes[k], boxes[k + 1], boxes[k + 2]];
      const less = again ? line.high * 0.4 : 0;  // computed again: lower
      pen.fillRect(x, y + less, wide - (wide > 5 ? 1 : 0), line.high - less);
    }
  }
  pen.textAlign = 'center';
  for (const i of labels) paintLabel(line, pen, rank, i, y);
}

function paintLabel(line, pen, rank, i, y) {
  const {data} = line, x = line.x(data.start[i]), wide = line.x(data.end[i]) - x;
  const top = data.again[i] ? y + line.high * 0.4 : y, high = y + line.high - top;
  pen.fillStyle = theme.get(cellColour(data, i) + '-ink');
  const chunk = data.severalStages ? data.chunk[rank + ',' + data.stage[i]] || 0 : 0;
  if (chunk && wide > 4 + 5 * chunk)  // a notch for each chunk before this one
    for (let k = 0; k < chunk; ++k) pen.fillRect(x + 2 + 5 * k, top, 3, Math.min(5, high / 3));
  const label = data.op[i] === UPDATE ? 'v' + data.version[i] : '' + data.micro[i];
  let size = line.high >= 20 ? 12 : 9;
  const room = text => 0.6 * size * text.length + 2 <= wide;
  if (!room(label)) size = 9;
  if (!room(label)) return;
  const version = 'v' + data.version[i];
  const two = line.options.versions !== false && isPass(data.op[i]) && high >= 30 && room(version);
  pen.font = `600 ${size}px system-ui, sans-serif`;
  pen.fillText(label, x + wide / 2, top + high / 2 + (two ? -2 : size * 0.36));
  if (!two) return;
  pen.font = `${Math.max(9, size - 2)}px system-ui, sans-serif`;
  pen.fillText(version, x + wide / 2, top + high / 2 + 11);
}

/** Updates, and what a group does together beside computations. */
function paintMarks(line, pen, rank) {
  const {data} = line, y = line.rowTop(rank), {updates} = data;
  if (updates[rank].length < (line.right - line.left) / 4) {
    pen.fillStyle = theme.get('update');
    for (const i of updates[rank])
      if (data.end[i] >= line.from && data.end[i] <= line.to)
        pen.fillRect(line.x(data.end[i]) - 1.2, y - 2, 2.4, line.high + 4);
  }
  line.options.marks?.(line, pen, rank);
  if (line.high < 20) return;
  for (const i of data.meetings[rank]) {
    if (data.end[i] < line.from || data.start[i] > line.to) continue;
    pen.fillStyle = theme.get(messageColour(data, i));
    const x = line.x(data.start[i]);
    pen.fillRect(x, y + line.high + 2, Math.max(2, line.x(data.end[i]) - x), 4);
  }
}

/** Of cells that share a pixel the one in its middle is shown: an image with a line per row. */
function paintSamples(line, pen, ranks) {
  const {data} = line, wide = Math.round((line.right - line.left) * line.scale);
  const strip = line.strip ||= document.createElement('canvas');
  strip.width = wide;
  strip.height = ranks.length;
  const ink = strip.getContext('2d'), image = ink.createImageData(wide, ranks.length);
  const pixels = new Uint32Array(image.data.buffer), colours = {};
  const from = line.seconds(line.left), step = line.column;
  ranks.forEach((rank, row) => {
    const cells = data.computes[rank];
    let k = firstWhere(cells.length, i => data.end[cells[i]] > from);
    for (let x = 0; x < wide; ++x) {
      const seconds = from + (x + 0.5) * step;
      while (k < cells.length && data.end[cells[k]] <= seconds) ++k;
      if (k === cells.length || data.start[cells[k]] > seconds) continue;
      const colour = cellColour(data, cells[k]);
      pixels[row * wide + x] = colours[colour] ??= pixelOf(theme.get(colour));
    }
  });
  ink.putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  ranks.forEach((rank, row) => pen.drawImage(
      strip, 0, row, wide, 1, line.left, line.rowTop(rank), line.right - line.left, line.high));
}

/** A colour "#rrggbb" as a pixel of an image. */
function pixelOf(colour) {
  const [r, g, b] = [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}
