// Runs side by side: what differs, the numbers, curves over each other, time, memory and bytes.

const runColor = (i) => cssColor('series-' + i % 6);
const runName = (run, i) =>
    el('span', {class: 'run'}, el('i', {style: `background:${runColor(i)}`}), run.name);

/** How a value differs from the first run's, in words. */
function changeOf(value, first, text) {
  if (!text || !Number.isFinite(value) || !Number.isFinite(first) || value === first) return '';
  const sign = value > first ? '+' : '−';
  if (text === percent) return `${sign}${digits(100 * Math.abs(value - first), 2)} points`;
  if (first === 0) return '';
  const ratio = value / first;
  return ratio >= 1.995 || ratio <= 0.501 ? `× ${digits(ratio, 2)}` :
                                            `${sign}${percent(Math.abs(ratio - 1))}`;
}

/**
 * A table with a column for each run, and the change from the first one. rows: {name, values, text,
 *  best}; `best`: Math.min or Math.max of numbers of which some are better, which are bold.
 */
function runTable(title, about, rows) {
  const {runs} = data;
  const shown = rows.filter(({values}) => values.some((value) => (value ?? null) !== null));
  if (!shown.length) return null;
  const cell = ({values, text, best}, value, i) => {
    const words = value === undefined || value === null ? '–' : (text || String)(value);
    const known = values.filter(Number.isFinite);
    const isBest = best && value === best(...known) && known.some((other) => other !== value);
    return el(
        'td', {}, isBest ? el('b', {}, words) : words,
        i > 0 && el('small', {}, ' ', changeOf(value, values[0], text)));
  };
  return panel(
      title, about,
      scroller(
          el('table', {class: 'runs'},
             el('tr', {}, el('td'), runs.map((run, i) => el('th', {}, runName(run, i)))),
             shown.map(
                 (row) =>
                     el('tr', {}, el('th', {}, row.name),
                        row.values.map((value, i) => cell(row, value, i)))))));
}

const peakOf = (summary, key) => {
  const peaks = (summary[key] || []).map((rank) => rank.total).filter(Number.isFinite);
  return peaks.length ? Math.max(...peaks) : undefined;
};
const rateEntry = (summary) =>
    Object.entries(summary).find(([key]) => key.endsWith('_per_second')) || ['units'];
const rateOf = (summary) => rateEntry(summary)[1];
const unitOf = (summary) => rateEntry(summary)[0].split('_')[0];
/** Bytes that an update sends, of each kind. */
const sentOf = (summary, kinds = Object.keys(summary.bytes_sent)) =>
    kinds.map((kind) => (summary.bytes_sent[kind] || 0) / Math.max(1, sessionSteps(summary)));

function comparedNumbers() {
  const summaries = data.runs.map((run) => run.summary);
  const row = (name, of, text, best) => ({name, values: summaries.map(of), text, best});
  const least = (name, of, text) => row(name, of, text, Math.min);
  const most = (name, of, text) => row(name, of, text, Math.max);
  const nats = (value) => value.toFixed(4);
  return runTable('The numbers', 'Bold: the better one. Small: the change from the first run.', [
    least('validation loss, nats', (s) => s.validation_loss, nats),
    most('validation accuracy', (s) => s.validation_accuracy, percent),
    least('training loss in the last update, nats', (s) => s.loss, nats),
    most(`${unitOf(summaries[0])} per second`, rateOf, digits),
    least('peak memory of the fullest rank in training', (s) => peakOf(s, 'peak_bytes'), bytes),
    least('the same, since the pruning', (s) => peakOf(s, 'peak_bytes_pruned'), bytes),
    least('the same, in validations', (s) => peakOf(s, 'peak_bytes_validation'), bytes),
    least('idle in recorded updates, simulated', (s) => simulatedOf(s.bubble), percent),
    least('idle in recorded updates, measured', (s) => s.bubble?.measured, percent),
    least('idle in all updates, measured', (s) => s.bubble?.all_steps, percent),
    least('idle in a full pipeline, simulated', (s) => s.bubble?.steady_state, percent),
    least('time of an update, simulated', (s) => simulatedOf(s.update_seconds), seconds),
    least('time of an update, measured', (s) => s.update_seconds?.measured, seconds),
    least('bytes sent in an update', (s) => s.bytes_sent && sum(sentOf(s)), bytes),
    least('largest burst', (s) => s.largest_burst_bytes, bytes),
    least('peak of all activations', (s) => s.peak_activation_bytes, bytes),
    most(
        'share of the device\'s best speed',
        (s) => s.model_flops_utilization < 1 ? s.model_flops_utilization : undefined, percent),
    row('updates', (s) => s.steps, count),
    row('time of all updates', (s) => isResumed(s) ? null : s.seconds, seconds),
    row('updates since the last resume', (s) => isResumed(s) ? sessionSteps(s) : null, count),
    row('parameters', (s) => s.parameters, count),
    row('ranks', (s) => s.ranks ?? s.peak_bytes?.length, count),
    row('state', (s) => s.state ?? (s.complete ? 'finished' : 'stopped')),
    row('date', (s) => s.date)
  ]);
}

function comparedCurves() {
  const rate = unitOf(data.runs[0].summary) + '_per_second';
  const chart = (title, key, text, options = {}) => {
    const place = drawn((width) => {
      const weight = +chosen('smooth', usualSmoothing()),
            log = chosen('log', 'no') === 'yes' && key === 'loss';
      const series = data.runs.flatMap(({name, metrics}, i) => {
        if (!metrics[key]) return [];
        const raw = {name, color: runColor(i), x: metrics.step, y: metrics[key], text};
        return weight > 0 && options.smooth ?
            [{...raw, faint: true}, {...raw, y: smoothed(metrics[key], weight)}] :
            [raw];
      });
      return lineChart(
          width, options.high ? Math.min(420, Math.max(260, width / 3)) : 200, series, {
            yText: key === 'seconds' ? seconds : digits,
            log,
            fromZero: key !== 'loss',
            robust: key !== 'loss'
          });
    });
    return [place, panel(title, '', options.tools && options.tools(() => redraw()), place)];
  };
  const redraw = () => charts.forEach(([place]) => place.redraw());
  const tools = () =>
      el('div', {class: 'tools'}, ...curveTools(redraw),
         el('span', {class: 'legend'}, data.runs.map((run, i) => runName(run, i))));
  const nats = (value) => `${value.toFixed(4)} nats`;
  const charts = [
    chart('Training loss, in nats', 'loss', nats, {smooth: true, high: true, tools}),
    chart('Norm of the gradient', 'gradient_norm', digits, {smooth: true}),
    chart('Time of each update', 'seconds', seconds),
    chart('Learning rate', 'learning_rate', digits),
    chart(
        `${rate[0].toUpperCase()}${rate.slice(1).replaceAll('_', ' ')}`, rate, digits,
        {smooth: true})
  ];
  const validations = data.runs.map(({name, metrics}, i) => ({
                                      name,
                                      color: runColor(i),
                                      dots: true,
                                      text: nats,
                                      x: metrics.validation.map((each) => each.step),
                                      y: metrics.validation.map((each) => each.validation_loss)
                                    }));
  const grid = el('div', {class: 'grid'}, charts.slice(1).map(([, card]) => card));
  if (validations.some((each) => each.x.length > 1))
    grid.prepend(panel(
        'Validation loss, in nats', '', drawn((width) => lineChart(width, 200, validations))));
  return [charts[0][1], grid];
}

/** A bar for each run. */
function runBars(title, about, values, parts, text, note) {
  const rows = data.runs
                   .map((run) => ({
                          name: run.name,
                          values: values(run.summary) || [],
                          note: note && note(run.summary)
                        }))
                   .filter((row) => sum(row.values) > 0);
  if (!rows.length) return null;
  const longest = Math.max(...rows.map((row) => row.name.length));
  return panel(
      title, about,
      drawn(
          (width) => stackedBars(
              width, rows, parts, {text, label: Math.min(width / 3, 12 + 7.2 * longest)})),
      legend(parts.filter((_, i) => rows.some((row) => row.values[i] > 0))));
}
function comparedBars() {
  const names = [
    'forward', 'backward', 'update', 'has no core', 'waits for another rank', 'point-to-point',
    'collectives', 'other'
  ];
  const parts = colored(names, stepColors);
  const time = (of) => (summary) => {
    const all = of(summary.breakdown || {}), ranks = summary.ranks ?? summary.peak_bytes?.length;
    if (!all) return null;
    const updates = summary.recorded_updates ?
        summary.recorded_updates[1] - summary.recorded_updates[0] + 1 :
        1;
    const rest = [all.waiting - all.other, all.point_to_point, all.collective, all.other];
    const computed = all.compute + all.update;
    const bare = of !== simulatedOf && summary.bubble?.without_core || 0;
    const coreless = Math.min(computed, bare * (computed + sum(rest)));
    const bareParts = [all.forward, all.backward, all.update].map(
        (part) => part * (1 - coreless / (computed || 1)));
    return [...bareParts, coreless, ...rest].map((value) => Math.max(0, value) / ranks / updates);
  };
  const categories =
      ['weights', 'gradients', 'optimizer', 'activations', 'communication', 'workspace', 'index'];
  const fullest = (summary) => {
    const ranks = summary.peak_bytes || [];
    const rank = ranks.reduce((best, each) => !best || each.total > best.total ? each : best, null);
    return rank && categories.map((name) => rank[name] || 0);
  };
  const kinds =
      [...new Set(data.runs.flatMap(({summary}) => Object.keys(summary.bytes_sent || {})))];
  return [el(
      'div', {class: 'columns'},
      runBars(
          'Where a step went, measured',
          'The mean rank in the mean of the recorded updates.' + aboutOther,
          time(({measured}) => measured), parts, seconds),
      runBars(
          'Where a step went, simulated', 'Simulated from the measured costs.', time(simulatedOf),
          parts, seconds),
      runBars(
          'Memory of the fullest rank',
          'The peak of each category over the run, which need not have been at one moment; the ' +
              'number is the peak of all together.',
          fullest, colored(categories), bytes,
          (summary) => peakOf(summary, 'peak_bytes') && bytes(peakOf(summary, 'peak_bytes'))),
      runBars(
          'Bytes sent in an update',
          'The mean over all updates; of a resumed run, over those since the resume.',
          (summary) => summary.bytes_sent && sentOf(summary, kinds), colored(kinds), bytes))];
}

/** First the table of what runs were asked for: it is the reason for all other differences. */
function comparisonPanels() {
  const text = (value) => value === null || value === undefined ? '–' :
      typeof value === 'string'                                 ? value :
                                                                  JSON.stringify(value);
  return [
    el('header', {}, el('h1', {}, data.title)),
    runTable(
        'What was asked for', 'Settings in which the runs differ; all others are equal.',
        data.differences.map(({what, values}) => ({name: what, values: values.map(text)}))) ||
        panel('What was asked for', 'All settings are equal.'),
    data.warnings.length > 0 &&
        el('p', {class: 'shared'}, el('b', {}, 'Compare with care. '), data.warnings.join(' ')),
    comparedNumbers(), comparedCurves(), comparedBars(),
    panel(
        'Commands', '',
        data.runs.map(
            (run, i) => el('div', {class: 'compared'}, runName(run, i), commands(run.summary)))),
    madeBy(data.command, data.version)
  ];
}
