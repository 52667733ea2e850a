// Memory of all ranks at their peaks, of one rank over time, and what is planned at ZeRO's levels.

const memoryParts = (memory) => colored(memory.categories);
const sinceWords = (shown) =>
    shown.since ? `after ${shown.since.replace(/ after.*/, '')}` : 'at the start';

function memoryPanel() {
  const shown = shownWindow(), {memory} = shown, parts = memoryParts(memory);
  const used = parts.map((part, i) => memory.peaks.some((peak) => peak[i] > 0));
  const only = (list) => list.filter((_, i) => used[i]);
  const held = (rank) => sum(memory.peaks[rank]);
  const rows = rankGroups(shown).map((ranks) => {
    const fullest = ranks.reduce((best, rank) => held(rank) > held(best) ? rank : best, ranks[0]);
    return {name: groupName(ranks), values: only(memory.peaks[fullest])};
  });
  const mostIn = (each) => Math.max(...each.memory.peaks.map(sum));
  const highest = Math.max(...data.windows.map(mostIn));
  const compared = data.windows.length > 1 &&
      data.windows.map((each) => `${bytes(mostIn(each))} ${sinceWords(each)} (${updatesOf(each)})`)
          .join('; ');
  return panel(
      'Memory',
      `Each rank at the moment when it held the most in ${updatesOf(shown)}.` +
          (compared ? ` The fullest rank: ${compared}.` : '') +
          groupNote(shown, 'those of the fullest of them'),
      el('div', {class: 'columns'},
         el('div', {},
            drawn(
                (width) =>
                    [stackedBars(
                         width, rows, only(parts), {text: bytes, label: barLabel(shown, width)}),
                     legend(only(parts))]),
            levelsChart(shown)),
         el('div', {}, memoryOverTime(shown, highest))));
}

/** Bars of the fullest rank's planned memory, at every level of ZeRO that the plan can have. */
function levelsChart(shown) {
  const levels = shown.levels || data.windows[0].levels;  // of a pruned run: before it was
  if (!levels) return '';
  const rows = levels.flatMap((each, level) => each ? {
    name: (level === 0 ? 'dense' : `ZeRO ${level}`),
    values: shown.kinds.map((kind) => each.fullest.bytes[kind] || 0),
    note: bytes(Math.max(...each.peaks)) +
        (shown.levels && level === shown.level ? ', this run' : '')
  } : []);
  if (rows.length < 2)
    return data.summary.ranks > 1 &&
        el('p', {class: 'about'},
           'ZeRO has no other level here: no rank has a replica to share state with, or ranks ' +
               'would wait for each other’s gathers.');
  const parts = colored(shown.kinds, shown.memory.categories);
  return [
    el('h3', {},
       'Planned memory of the fullest rank' + (shown.levels ? '' : ', if nothing were pruned')),
    el('p', {class: 'about'},
       'At its fullest moment: a sum of gradients is partitioned once it is complete' +
           (levels[3] ? '; ZeRO 3 has the stages in use whole, beside its shards, which is more ' +
                            'than dense where stages are few.' :
                        '.')),
    drawn((width) => stackedBars(width, rows, parts, {text: bytes, label: 56, end: 130}))
  ];
}

function memoryOverTime(shown, highest) {
  const {memory} = shown, ranks = Object.keys(memory.lines);
  const rows = shown.cells.rows,
        same = (rank) => rows.find((row) => String(row.rank) === rank)?.same;
  const place = drawn((width) => {
    const known = ranks.includes(chosen('rank', ranks[0])) || chosen('rank', '') === 'all';
    const rank = known ? chosen('rank', ranks[0]) : ranks[0], all = rank === 'all';
    const taken = all ? ranks : [rank], lists = Object.values(memory.lines).flat();
    const length = Math.max(...lists.map((line) => Array.isArray(line) ? line.length : 1));
    const held = (each, category, i) => {
      const line = memory.lines[each][category], times = all && same(each)?.length || 1;
      return (Array.isArray(line) ? line[i] : line) * memory.unit * times;
    };
    const heldAt = (_, i) =>
        memory.categories.map((_, category) => sum(taken.map((each) => held(each, category, i))));
    const columns = Array.from({length}, heldAt);
    const top = all ? Math.max(...columns.map(sum)) : highest;
    return areaChart(
        width, 260, columns, memoryParts(memory), shown.seconds.measured, top,
        (i) => `${all ? 'all ranks' : `rank ${rank}`}, after ${
            seconds(i / length * shown.seconds.measured)}`);
  });
  return [
    el('div', {class: 'tools'}, el('h3', {}, 'Over time'),
       ranks.length > 1 &&
           selector(
               'rank', 'rank',
               [
                 ...ranks.map(
                     (rank) =>
                         [rank,
                          same(rank)?.length > 1 ?
                              `${rank} (like ${plural(same(rank).length - 1, 'other')})` :
                              rank]),
                 ['all', 'all ranks together']
               ],
               ranks[0], () => place.redraw())),
    place
  ];
}

/** Stacked areas; an axis that all windows share ends at `highest`. */
function areaChart(width, height, columns, parts, long, highest, words) {
  const chart = frame(
      width, height, [0, long], [0, highest * 1.03],
      {yText: bytes, xText: (value) => seconds(+value.toPrecision(6)), left: 64});
  const at = (i) => chart.x(i / columns.length * long);
  let below = columns.map(() => 0);
  parts.forEach((part, category) => {
    const above = below.map((value, i) => value + columns[i][category]);
    if (above.some((value, i) => value > below[i])) {
      const top = above
                      .map(
                          (value, i) => `${i ? 'V' : `M${at(0).toFixed(1)} `}${
                              chart.y(value).toFixed(1)}H${at(i + 1).toFixed(1)}`)
                      .join('');
      const back = [...below.keys()]
                       .reverse()
                       .map((i) => `V${chart.y(below[i]).toFixed(1)}H${at(i).toFixed(1)}`)
                       .join('');
      chart.root.append(svg('path', {d: top + back + 'Z', fill: part.color}));
    }
    below = above;
  });
  return addCursor(
      chart, columns.length, (share) => Math.floor(share * columns.length), (i) => at(i + 0.5),
      (i) => `${words(i)}: ${bytes(sum(columns[i]))}\n${partsText(columns[i], parts)}`);
}
