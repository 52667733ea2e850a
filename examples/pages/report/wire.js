// Bytes on the wire: by kind against f32, by rank, over time; and the bits of layers.

function wirePanel() {
  const shown = shownWindow(), {wire} = shown;
  if (!wire.kinds.length || sum(wire.sent) < 1000)
    return data.summary.ranks > 1 ? panel('Wire', 'Ranks sent less than 1 kB an update.') : null;
  const parts = colored(wire.kinds);
  const ratio = sum(wire.f32) / sum(wire.sent), less = ratio > 1.02;
  const rows = [{name: 'sent', values: wire.sent}, {name: 'as f32', values: wire.f32}];
  const kinds = wire.kinds
                    .map(
                        (name, i) => wire.f32[i] / wire.sent[i] > 1.02 ?
                            `${name} ${digits(wire.f32[i] / wire.sent[i])} times smaller` :
                            '')
                    .filter(Boolean);
  const sent = wire.ranks[0].map((_, rank) => wire.ranks.map((kind) => kind[rank]));
  const ranks =
      rankGroups(shown).map((ranks) => ({name: groupName(ranks), values: meanOf(ranks, sent)}));
  return panel(
      'Wire',
      `An update sends ${bytes(sum(wire.sent))} over all ranks` +
          (less ? `; the same values in f32, without a codec, would be ${bytes(sum(wire.f32))}, ${
                      digits(ratio)} times as many: ${kinds.join(', ')}.` :
                  ', all of them in f32 and without a codec.'),
      el('div', {class: 'columns'},
         el('div', {}, el('h3', {}, 'An update, by kind'),
            drawn(
                (width) => stackedBars(
                    width, less ? rows : rows.slice(0, 1), parts, {text: bytes, label: 56})),
            el('h3', {}, 'An update, by rank'),
            drawn(
                (width) =>
                    stackedBars(width, ranks, parts, {text: bytes, label: barLabel(shown, width)})),
            legend(parts)),
         el('div', {}, flowChart(shown, parts))),
      bitsChart());
}

function flowChart(shown, parts) {
  const {flow, largest_burst: burst, burst_seconds: time} = shown.wire;
  if (!flow) return null;
  const columns = flow.slots[0].map((_, i) => flow.slots.map((kind) => kind[i]));
  return [
    el('h3', {}, 'Bytes that ranks begin to send, over time'),
    el('p', {class: 'about'},
       `Columns of ${seconds(flow.seconds)}. The largest burst is ${bytes(burst)} within ${
           seconds(time)}, the mean time of a forward or backward.`),
    drawn((width) => columnChart(width, 230, columns, parts, {
            range: [0, columns.length * flow.seconds],
            yText: bytes,
            xText: (value) => seconds(+value.toPrecision(6)),
            tips: (i) => `${seconds(i * flow.seconds)} to ${seconds((i + 1) * flow.seconds)}\n` +
                partsText(columns[i], parts)
          }))
  ];
}

function bitsChart() {
  const choices = data.metrics.bits || [];
  if (!choices.length) return null;
  const layers = [...new Set(choices.flatMap(({bits}) => Object.keys(bits)))];
  return [
    el('h3', {}, 'Bits of each layer\'s gradient on the wire'),
    scroller(
       el('table', {class: 'bits'},
          el('tr', {}, el('th', {}, 'after update'),
             choices.map(({step}) => el('th', {}, count(step)))),
          layers.map(
              (layer) => el(
                  'tr', {}, el('th', {}, layer),
                  choices.map(
                      ({bits}) => el(
                          'td', {style: `--bits:${(bits[layer] || 0) / 8}`}, bits[layer] ?? ''))))))
  ];
}
