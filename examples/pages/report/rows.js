// The cells of recorded updates, from a window's compact lists, and what they are called.

/** Rows of cells with their times in seconds, from a window's compact lists. */
function rowsOf(cells) {
  const times = (list) => {
    const result = [];
    let now = 0;
    for (let i = 0; i < list.length; i += 2) {
      const begin = now + list[i];
      now = begin + list[i + 1];
      result.push([begin * cells.tick, now * cells.tick]);
    }
    return result;
  };
  return cells.rows.map((row) => {
    const measured = times(row.measured), planned = times(row.planned), seen = new Set();
    const list = row.cells ? row.cells.split(' ').map((text, i) => {
      const [, stage, kind, micro, version] = text.match(/^(\d+)([FBIWS])(\d*)v(\d+)$/);
      const again = kind === 'F' && seen.has(stage + '/' + micro);
      if (kind === 'F') seen.add(stage + '/' + micro);
      return {
        text,
        stage,
        kind,
        micro,
        version: +version,
        again,
        measured: measured[i],
        planned: planned[i],
        wait: null
      };
    }) :
                             [];
    for (const [i, stage, message, collective, source] of row.waits)
      list[i].wait = {
        parts: [stage, message, collective].map((ticks) => ticks * cells.tick),
        source
      };
    return {rank: row.rank, same: row.same || [row.rank], cells: list};
  });
}
const kindWords = {
  F: 'forward',
  B: 'backward',
  I: 'backward, gradient of the input',
  W: 'backward, gradient of the weights',
  S: 'update'
};
const family = {
  F: 'forward',
  B: 'backward',
  I: 'input-part',
  W: 'weight-part',
  S: 'update'
};
const cellWords = (cell) => cell.kind === 'S' ?
    `update ${cell.version}` :
    `${kindWords[cell.kind]} ${cell.micro}${cell.again ? ', computed again' : ''}`;
const waitColors = ['waits', 'communication', 'series-2'];

function sourceWords(text) {
  const [, , kind, micro, version] = text.match(/^(\d+)([FBIWS])(\d*)v(\d+)$/);
  return kind === 'S' ? `update ${version}` : `${kindWords[kind]} ${micro}`;
}

/** What a tip says of a cell; `compared`: against the plan, both from the update's begin. */
function describeCell({row, cell}, update, stages, compared) {
  const [begin, end] = cell.measured, took = end - begin, plan = cell.planned[1] - cell.planned[0];
  let text = `rank ${row.rank}: ${cellWords(cell)}` + (stages > 1 ? `, stage ${cell.stage}` : '') +
      (cell.kind === 'S' ? '' : `, version ${cell.version}`);
  text += `\ntook ${seconds(took)}, planned ${seconds(plan)}`;
  const late = begin - update.measured[0] - (cell.planned[0] - update.planned[0]);
  if (compared)
    text += `\nbegan ${seconds(Math.abs(late))} ${late < 0 ? 'earlier' : 'later'} than planned`;
  if (cell.wait) {
    const words = ['for another rank', 'for messages', 'for collectives'];
    const parts = cell.wait.parts.map((part, i) => part > 0 ? `${seconds(part)} ${words[i]}` : '')
                      .filter(Boolean);
    text += `\nwaited ${parts.join(', ') || 'though its input was there'}`;
    const [rank, source] = cell.wait.source.split(':');
    if (source) text += `; in the end for ${sourceWords(source)} of rank ${rank}`;
  }
  return text;
}

/** The pattern of idle time. */
function hatch(ink, colors) {
  const tile = el('canvas', {width: 7, height: 7}), pen = tile.getContext('2d');
  pen.fillStyle = colors('lane');
  pen.fillRect(0, 0, 7, 7);
  pen.strokeStyle = colors('bubble');
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(-1, 8);
  pen.lineTo(8, -1);
  pen.moveTo(-1, 1);
  pen.lineTo(1, -1);
  pen.moveTo(6, 8);
  pen.lineTo(8, 6);
  pen.stroke();
  return ink.createPattern(tile, 'repeat');
}

function timelineLegend(rows, shownWindow) {
  const kinds = new Set(rows.flatMap((row) => row.cells.map((cell) => cell.kind)));
  const shade = shownWindow.overlaps ? '' : '-1';
  const parts = [...kinds].map(
      (kind) => ({
        name: kindWords[kind],
        color: kind === 'S' ? cssColor('update') : cssColor(family[kind] + (shade || '-1'))
      }));
  const words = shownWindow.overlaps ?
      ' (number: microbatch; v and shade: version of the weights)' :
      ' (number: microbatch)';
  const folded = rows.filter((row) => row.same.length > 1).length;
  return [
    legend([
      ...parts, {name: 'idle', className: 'hatched'},
      {name: 'took half as long again as planned', color: cssColor('fault')},
      ...(rows.some((row) => row.cells.some((cell) => cell.wait)) ?
              [
                {name: 'below: waits for another rank', color: cssColor('waits')},
                {name: 'message under way', color: cssColor('communication')},
                {name: 'collective under way', color: cssColor('series-2')}
              ] :
              [])
    ]),
    el('p', {class: 'about'},
       'Cells' + words + '. ' +
           (rows.some((row) => row.cells.some((cell) => cell.again)) ?
                'Lower cells: forwards that are computed again, for their backwards. ' :
                '') +
           (folded ? 'A row stands for all ranks that compute the same stages in the same order. ' :
                     '') +
           (shownWindow.cells.left_out ? `Of very many cells, ${shownWindow.cells.left_out}.` : ''))
  ];
}
