// Curves over updates, and how long updates took.

/** Exponential smoothing that is not drawn to zero at its begin. */
function smoothed(values, weight) {
  let mean = 0, scale = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    scale = weight * scale + 1 - weight;
    return mean / scale;
  });
}
/** A weight for smoothing that suits a run's length. */
function usualSmoothing() {
  const points = Math.max(...(data.runs || [data]).map(({metrics}) => (metrics.step || []).length));
  return points > 300 ? '0.9' : points > 100 ? '0.8' : '0.6';
}
function allEvents() {
  const saved = data.summary.events || [], found = data.metrics.events || [];
  const seen = new Set(), all = [];
  for (const event of [...found, ...saved]) {
    const key = `${event.step} ${event.what}`;
    if (!seen.has(key)) all.push(event);
    seen.add(key);
  }
  for (const {step, validation_loss: loss} of data.metrics.validation)
    all.push({step, what: 'validation', text: `validation loss ${loss.toFixed(4)} nats`});
  return all.sort((a, b) => a.step - b.step);
}
const column = (name) => (data.metrics[name] || []);

function lossChart(others) {
  const {metrics} = data;
  return drawn((width) => {
    const weight = +chosen('smooth', usualSmoothing()), log = chosen('log', 'no') === 'yes';
    const nats = (value) => `${value.toFixed(4)} nats`, series = [];
    const training = column('loss'), x = column('step');
    const {loss_low: low, loss_high: high} = metrics;
    const line = {name: 'training', color: cssColor('series-0'), x, y: training, text: nats};
    const raw = {...line, low, high, faint: weight > 0};
    series.push(raw);
    if (weight > 0)
      series.push({...line, name: 'training, smoothed', y: smoothed(training, weight)});
    for (const [i, {name, x, y}] of others.entries()) {
      const color = cssColor('series-' + (2 + i % 4));
      series.push({name, color, x, y: smoothed(y, weight), text: nats});
    }
    const validation = metrics.validation;
    if (validation.length)
      series.push({
        name: 'validation',
        color: cssColor('series-1'),
        dots: true,
        text: nats,
        x: validation.map((each) => each.step),
        y: validation.map((each) => each.validation_loss)
      });
    return [
      lineChart(
          width, Math.min(420, Math.max(260, width / 3)), series,
          {log, events: allEvents()}),
      legend(series.filter((each) => !each.faint).map(({name, color}) => ({name, color})))
    ];
  });
}

/** metrics.jsonl of another run, dropped onto the page, as a curve. */
function readMetrics(file, others, done) {
  file.text().then((text) => {
    const other = {name: file.webkitRelativePath || file.name, x: [], y: []};
    for (const line of text.split('\n')) {
      try {
        const entry = JSON.parse(line);
        if (Number.isFinite(entry.loss)) {
          other.x.push(entry.step);
          other.y.push(entry.loss);
        }
      } catch { /* a line that is being written */
      }
    }
    if (other.x.length) others.push(other);
    done();
  });
}

/** What curves can be asked for: a slider of smoothing and a box for a logarithmic axis. */
function curveTools(redraw) {
  const oninput = () => {
    choose('smooth', slider.value);
    redraw();
  };
  const onchange = () => {
    choose('log', log.checked ? 'yes' : 'no');
    redraw();
  };
  const range = {type: 'range', min: 0, max: 0.99, step: 0.01, 'aria-label': 'smoothing', oninput};
  const slider = el('input', {...range, value: chosen('smooth', usualSmoothing())});
  const log = el('input', {type: 'checkbox', onchange});
  log.checked = chosen('log', 'no') === 'yes';
  return [el('label', {}, 'smoothing ', slider), el('label', {}, log, ' logarithmic')];
}

function curvesPanel() {
  const others = [], loss = lossChart(others);
  const addRuns = (files) => {
    for (const each of files) readMetrics(each, others, () => loss.redraw());
  };
  const onchange = () => addRuns(file.files);
  const file = el('input', {type: 'file', accept: '.jsonl', multiple: '', hidden: '', onchange});
  const card = panel(
      'Loss, in nats',
      data.metrics.updates_per_point > 1 ?
          `Each point is the mean of ${
              data.metrics
                  .updates_per_point} updates; the band is from the lowest to the highest.` :
          '',
      el('div', {class: 'tools'}, ...curveTools(() => loss.redraw()),
         el('button', {onclick: () => file.click()}, 'add a metrics.jsonl'), file,
         el('span', {class: 'wide'}, 'or drop one here')),
      loss);
  card.addEventListener('dragover', (event) => event.preventDefault());
  card.addEventListener('drop', (event) => {
    event.preventDefault();
    addRuns(event.dataTransfer.files);
  });
  const rate = data.unit + '_per_second';
  const small = (title, name, color, text, options = {}) => panel(
      title, '',
      drawn(
          (width) => lineChart(
              width, 200,
              [{name: title, color: cssColor(color), x: column('step'), y: column(name), text}],
              {yText: text, events: allEvents(), ...options})));
  return [
    card,
    el('div', {class: 'grid'},
       small('Learning rate', 'learning_rate', 'series-2', digits, {fromZero: true}),
       small(
           'Norm of the gradient', 'gradient_norm', 'series-0', digits,
           {fromZero: true, robust: true}),
       small(
           `${data.unit[0].toUpperCase()}${data.unit.slice(1)} per second`, rate, 'series-3',
           digits, {fromZero: true, robust: true}),
       small('Time of each update', 'seconds', 'series-1', seconds, {fromZero: true, robust: true}),
       histogramPanel())
  ];
}

function histogramPanel() {
  const {histogram} = data.metrics;
  if (!histogram) return null;
  const {low, high, counts} = histogram, edge = (i) => low * (high / low) ** (i / counts.length);
  return panel(
      'How long updates took',
      `Half of them took less than ${seconds(histogram.median)}, one in a hundred more than ${
          seconds(histogram.slow)}. Every column is ${
          digits((high / low) ** (1 / counts.length))} times as long as the one before.`,
      drawn(
          (width) => columnChart(
              width, 180, counts.map((value) => [value]), [{color: cssColor('series-1')}], {
                range: [0, counts.length],
                yText: digits,
                xText: (i) => seconds(edge(i)),
                tips: (i) =>
                    `${seconds(edge(i))} to ${seconds(edge(i + 1))}\n${plural(counts[i], 'update')}`
              })));
}
