// The timelines of recorded updates, simulated above measured, which the player's Timeline draws.
// Both timelines show one update, and fade the cells of others, or all that were recorded.
// Not here: how rows, cells and the axis are drawn (player/page/timeline.js).

// For each letter of a cell: the operation, its words and its colour.
const cellKinds = {
  F: [FORWARD, 'forward', 'forward-1'],
  B: [BACKWARD, 'backward', 'backward-1'],
  I: [INPUT_PART, 'backward, gradient of the input', 'input-part-1'],
  W: [WEIGHT_PART, 'backward, gradient of the weights', 'weight-part-1'],
  S: [UPDATE, 'update', 'update']
};
const waitKinds = [
  ['waits', 'waits for another rank', 'for another rank'],
  ['communication', 'message under way', 'for messages'],
  ['series-2', 'collective under way', 'for collectives']
];

/** Parts of a cell's text, such as 2B9v1. */
function partsOf(text) {
  const [, stage, kind, micro, version] = text.match(/^(\d+)([FBIWS])(\d*)v(\d+)$/);
  return {text, stage: +stage, kind, micro: +micro, version: +version};
}

/** Cells of all rows with their times in seconds, from a window's compact lists. */
function cellsOf({rows, tick}) {
  const times = (list) => {
    const result = [];
    let now = 0;
    for (let i = 0; i < list.length; i += 2) {
      const begin = now + list[i];
      now = begin + list[i + 1];
      result.push([begin * tick, now * tick]);
    }
    return result;
  };
  return rows.map((row) => {
    const measured = times(row.measured), simulated = times(row.simulated), seen = new Set();
    const cells = (row.cells || '').split(' ').filter(Boolean).map((text, i) => {
      const cell = partsOf(text), pass = `${cell.stage}/${cell.micro}`;
      const again = cell.kind === 'F' && seen.has(pass);
      if (cell.kind === 'F') seen.add(pass);
      return {...cell, rank: row.rank, again, measured: measured[i], simulated: simulated[i]};
    });
    for (const [i, stage, message, collective, source] of row.waits)
      cells[i].wait = {parts: [stage, message, collective].map((ticks) => ticks * tick), source};
    return cells;
  });
}
const took = ([begin, end]) => end - begin;
const tookLonger = (cell) => took(cell.measured) > 1.5 * took(cell.simulated);
const updateOf = ({kind, micro, version}, {micros}) =>
    kind === 'S' ? version : Math.floor(micro / micros) + 1;
const cellWords = ({kind, micro, version}) =>
    cellKinds[kind][1] + ' ' + (kind === 'S' ? version : micro);

/** What a tip says of a cell; `compared`: with its simulation, both from the update's begin. */
function describeCell(cell, update, stages, compared) {
  let text = `rank ${cell.rank}: ${cellWords(cell)}${cell.again ? ', computed again' : ''}` +
      (stages > 1 ? `, stage ${cell.stage}` : '') +
      (cell.kind === 'S' ? '' : `, version ${cell.version}`);
  text += `\ntook ${seconds(took(cell.measured))}, simulated ${seconds(took(cell.simulated))}`;
  const late = cell.measured[0] - update.measured[0] - (cell.simulated[0] - update.simulated[0]);
  if (compared)
    text += `\nbegan ${seconds(Math.abs(late))} ${late < 0 ? 'earlier' : 'later'} than simulated`;
  if (cell.wait) {
    const parts =
        cell.wait.parts.map((part, i) => part > 0 ? `${seconds(part)} ${waitKinds[i][2]}` : '')
            .filter(Boolean);
    text += `\nwaited ${parts.join(', ') || 'though its input was there'}`;
    const [rank, source] = cell.wait.source.split(':');
    if (source) text += `; in the end for ${cellWords(partsOf(source))} of rank ${rank}`;
  }
  return text;
}

/** Fades the cells of a row for which isOther(cell) holds. */
function fade(line, pen, rank, isOther) {
  const {start, end, computes} = line.data, y = line.rowTop(rank);
  pen.save();
  pen.globalAlpha = 0.65;
  pen.fillStyle = theme.get('lane');
  for (const i of computes[rank])
    if (isOther(i)) pen.fillRect(line.x(start[i]), y, line.x(end[i]) - line.x(start[i]), line.high);
  pen.restore();
}

/** Draws that measured cells took longer than simulated, and below them what they waited for. */
function paintLateness(line, pen, rank, cells) {
  const y = line.rowTop(rank), {start, end, computes} = line.data;
  for (const i of computes[rank]) {
    const {wait} = cells[i], x = line.x(start[i]);
    if (end[i] < line.from || start[i] - sum(wait?.parts || []) > line.to) continue;
    if (tookLonger(cells[i])) {
      pen.fillStyle = theme.get('fault');
      pen.fillRect(x, y, Math.max(line.x(end[i]) - x - 0.8, 0.6), Math.min(4, line.high / 3));
    }
    if (!wait || line.gap <= 3) continue;
    let before = start[i];
    for (const part of [2, 1, 0]) {
      const begin = before - wait.parts[part];
      pen.fillStyle = theme.get(waitKinds[part][0]);
      pen.fillRect(line.x(begin), y + line.high + 1, line.x(before) - line.x(begin), 4);
      before = begin;
    }
  }
}

function timelineLegend(cells, rows, shownWindow, severalStages) {
  const kinds = new Set(cells.map((cell) => cell.kind));
  const parts = [
    ...[...kinds].map((kind) => ({name: cellKinds[kind][1], color: cssColor(cellKinds[kind][2])})),
    {name: 'idle', className: 'hatched'},
    {name: 'took half as long again as simulated', color: cssColor('fault')}
  ];
  if (cells.some((cell) => cell.wait))
    for (const [i, [color, name]] of waitKinds.entries())
      parts.push({name: i ? name : 'below: ' + name, color: cssColor(color)});
  const notes = [
    `Cells (number: microbatch${
        shownWindow.overlaps ? '; v and shade: version of the weights' : ''}).`,
    severalStages && 'Notches: the rank’s second stage, its third, and so on.',
    'Faded: cells of other updates.',
    cells.some((cell) => cell.again) &&
        'Lower cells: forwards that are computed again, for their backwards.',
    rows.some((row) => row.same) &&
        'A row stands for all ranks that compute the same stages in the same order.',
    shownWindow.cells.left_out && `Of very many cells, ${shownWindow.cells.left_out}.`
  ];
  return [legend(parts), el('p', {class: 'about'}, notes.filter(Boolean).join(' '))];
}

/** Lets a clock show the same share of its axis, and the same moment of it, as another. */
function follow(clock, other) {
  other.listen(() => {
    const scale = clock.seconds / other.seconds;
    const [now, from, to] = [other.now, other.from, other.to].map((moment) => moment * scale);
    const differ = (a, b) => Math.abs(a - b) > 1e-9 * clock.seconds;
    if (differ(from, clock.from) || differ(to, clock.to)) clock.window(from, to);
    if (differ(now, clock.now)) clock.set(now);
  });
}

function timelinePanel(shownWindow, stages) {
  const {rows, update, late} = shownWindow.cells, byRow = cellsOf(shownWindow.cells);
  const cells = byRow.flat(), rowBegin = [0];
  for (const row of byRow) rowBegin.push(rowBegin.at(-1) + row.length);
  const about = el('p', {class: 'about selected', 'aria-live': 'polite'});
  const isOther = (i) => updateOf(cells[i], update) !== update.version;
  let mode = chosen('time', 'fit'), selected = -1;

  /** The seconds at which the part that a timeline shows begins and ends. */
  const part = (which) => mode !== 'all' ?
      update[which] :
      [0, which === 'simulated' ? simulatedOf(shownWindow.seconds) : shownWindow.seconds.measured];
  const both = ['simulated', 'measured'];
  const axisOf = (which) =>
      Math.max(...(mode === 'scale' ? both : [which]).map((each) => took(part(each))));
  function dataOf(which) {
    const all = (of) => cells.map(of), [zero] = part(which);
    return timelineData({
      seconds: took(part(which)),
      records: {
        row_begin: rowBegin,
        op: all((cell) => cellKinds[cell.kind][0]),
        stage: all((cell) => cell.stage),
        micro: all((cell) => cell.micro),
        // All passes of updates that do not overlap have one shade.
        version: all((cell) => shownWindow.overlaps || cell.kind === 'S' ? cell.version : 1),
        again: all((cell) => cell.again),
        start: all((cell) => cell[which][0] - zero),
        end: all((cell) => cell[which][1] - zero)
      }
    });
  }
  function optionsOf(which) {
    const [from, to] = part(which);
    const inside = (cell) => Math.min(cell[which][1], to) - Math.max(cell[which][0], from);
    return {
      axis: (value) => seconds(+value.toPrecision(6)),
      names: rows.map((row) => `rank ${row.rank}`),
      idle: byRow.map((row) => 1 - sum(row.map((cell) => Math.max(0, inside(cell)))) / (to - from)),
      idleName: mode === 'all' ? 'idle' : 'idle in it',
      versions: shownWindow.overlaps,
      about: (record) => describeCell(cells[record], update, stages, mode !== 'all'),
      pick: select,
      marks: (line, pen, rank) => {
        if (mode !== 'all') fade(line, pen, rank, isOther);
        if (which === 'measured') paintLateness(line, pen, rank, cells);
      }
    };
  }
  const panels = both.map((which) => {
    const host = el(
        'div', {'aria-label': `${which} timeline: arrow keys go from cell to cell, + and - zoom`});
    const clock = new Clock(axisOf(which));
    return {which, host, clock, line: new Timeline(host, clock, dataOf(which), optionsOf(which))};
  });
  const [simulated, measured] = panels;
  follow(simulated.clock, measured.clock);
  follow(measured.clock, simulated.clock);

  function select(record) {
    selected = record;
    about.textContent =
        record < 0 ? '' : measured.line.options.about(record).replaceAll('\n', '; ');
    for (const {line} of panels) line.path(record < 0 ? [] : [record]);
  }
  function show(newMode) {
    mode = newMode;
    for (const {which, clock, line} of panels) {
      clock.end(axisOf(which));
      line.show(dataOf(which), optionsOf(which));
    }
    select(selected);
  }
  function jumpToLate() {
    const row =
        Math.max(0, rows.findIndex((each) => (each.same || [each.rank]).includes(late.rank)));
    const cell = byRow[row].findIndex((each) => each.text === late.cell);
    if (cell < 0) return;
    measured.clock.window(0, measured.clock.seconds);
    measured.clock.set(measured.line.data.start[rowBegin[row] + cell]);
    for (const {line} of panels) line.rank = row;
    select(rowBegin[row] + cell);
    measured.host.focus({preventScroll: true});
  }

  const lateWords = late ?
      el('p', {class: 'late'},
         el('b', {},
            `First cell that ended later than simulated: rank ${late.rank}, ${late.words}, +${
                seconds(late.seconds)}. `),
         `It ${late.why}. `, el('button', {onclick: jumpToLate}, 'Jump to it')) :
      el('p', {class: 'late'},
         'Every cell of this update ended as simulated, to a quarter of a time step.');
  const modes =
      [['fit', 'one update, fitted'], ['scale', 'same scale'], ['all', updatesOf(shownWindow)]];
  const zoom = (factor) => measured.clock.zoom(factor);
  const tools =
      el('div', {class: 'tools'}, switcher('time', 'What the timelines show', modes, 'fit', show),
         el('button', {onclick: () => zoom(1.6), 'aria-label': 'zoom in'}, '+'),
         el('button', {onclick: () => zoom(1 / 1.6), 'aria-label': 'zoom out'}, '−'),
         el('span', {}, 'Ctrl and wheel zoom, Shift and dragging move, a click tells more.'));
  return [
    lateWords, tools,
    panels.map(
        ({which, host}) =>
            [el('h3', {},
                `${which}: update ${update.version} takes ${seconds(took(update[which]))}`),
             host]),
    shownWindow.overlaps &&
        el('p', {class: 'about'},
           'An update begins before the one before it has ended, so updates follow each other in ' +
               'less time than one takes.'),
    timelineLegend(cells, rows, shownWindow, measured.line.data.severalStages), about,
    asTable(
        () => cells.map(
            (cell) =>
                [`rank ${cell.rank}`, cellWords(cell),
                 ...both.map(
                     (which) => `${which}: ${
                         cell[which].map((time) => digits(1e3 * time)).join(' to ')} ms`)]))
  ];
}
