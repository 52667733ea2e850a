// Charts in SVG: lines over updates, stacked bars, columns. Their colours are the palette's.
// dygraphs was tried in their place: a page of 132 kB more, which drew in 57 to 154 ms instead of
// 31 to 124, for about 50 lines less.

/** Round numbers from low to high, about `wanted` of them, and `least` or more apart. */
function ticks(low, high, wanted, least = 0) {
  const step = Math.max(least, roundStep((high - low) / Math.max(1, wanted))), result = [];
  if (!(step > 0)) return [low];
  for (let i = Math.ceil(low / step - 1e-6); i * step <= high + step * 1e-6; ++i)
    result.push(i * step);
  return result;
}
/** Powers of ten, with 2 and 5 between them if there are few. */
function logTicks(low, high) {
  const result = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const digit of high / low > 1000 ? [1] : high / low > 30 ? [1, 3] : [1, 1.5, 2, 3, 5, 7])
      if (digit * 10 ** power >= low * 0.999 && digit * 10 ** power <= high * 1.001)
        result.push(digit * 10 ** power);
  return result.length > 1 ? result : [low, high];
}

/** A frame for a chart: scales and axes. y may be logarithmic. */
function frame(
    width, height, [x0, x1], [y0, y1],
    {log = false, yText = digits, xText = count, xLabel = '', left = 58} = {}) {
  const right = width - 10, top = 10, bottom = height - (xLabel ? 36 : 22);
  if (x1 <= x0) x1 = x0 + 1;
  if (y1 <= y0) y1 = y0 + (Math.abs(y0) || 1) * 0.1;
  const x = (value) => left + (value - x0) / (x1 - x0) * (right - left);
  const place = log ? (value) => Math.log(value / y0) / Math.log(y1 / y0) :
                      (value) => (value - y0) / (y1 - y0);
  const y = (value) => Math.max(top - 3, bottom - place(value) * (bottom - top));
  const root = svg('svg', {width, height, class: 'chart'});
  for (const tick of log ? logTicks(y0, y1) : ticks(y0, y1, height / 50))
    root.append(
        svg('path', {class: 'grid', d: `M${left} ${y(tick)}H${right}`}),
        svg('text', {x: left - 7, y: y(tick) + 4, 'text-anchor': 'end'}, yText(tick)));
  for (const tick of ticks(x0, x1, width / 90, xText === count ? 1 : 0)) {
    const text = xText(tick), half = text.length * 3.4;
    root.append(
        svg('text', {
          x: Math.min(Math.max(x(tick), left + half - 8), right - half + 6),
          y: bottom + 17,
          'text-anchor': 'middle'
        },
            text));
  }
  if (xLabel)
    root.append(
        svg('text', {x: (left + right) / 2, y: height - 3, 'text-anchor': 'middle'}, xLabel));
  root.append(svg('path', {class: 'axis', d: `M${left} ${bottom}H${right}`}));
  return {root, x, y, left, right, top, bottom, x0, x1};
}

function path(x, y, xs, ys) {
  let text = '', pen = 'M';
  xs.forEach((value, i) => {
    const isDrawn = Number.isFinite(ys[i]);
    if (isDrawn) text += `${pen}${x(value).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
    pen = isDrawn ? 'L' : 'M';
  });
  return text;
}

/** Marks of events on an axis of updates: lines with a flag. */
function eventMarks(chart, events) {
  const marks = svg('g', {class: 'events'});
  const kinds = {pruning: 'pruned', bits: 'bits'};
  let last = -1e9;
  for (const {step, what, text} of events) {
    if (step < chart.x0 || step > chart.x1) continue;
    const at = chart.x(step),
          mark = svg(
              'g', {class: 'event ' + what, 'data-tip': `after update ${count(step)}\n${text}`});
    mark.append(
        svg('path', {d: `M${at} ${chart.top}V${chart.bottom}`}),
        svg('path', {class: 'flag', d: `M${at - 4} ${chart.bottom}h8l-4 -7z`}));
    if (kinds[what] && at - last > 60) {
      const near = at + 50 > chart.right;
      mark.append(
          svg('text',
              {x: near ? at - 4 : at + 4, y: chart.top + 9, 'text-anchor': near ? 'end' : 'start'},
              kinds[what]));
      last = at;
    }
    marks.append(mark);
  }
  return marks;
}

/**
 * Lines over updates, with a cursor that tells all values. series: {name, color, x, y, low, high,
 *  dots, faint, text}.
 */
function lineChart(width, height, series, {
  log = false,
  yText = digits,
  events = [],
  fromZero = false,
  robust = false,
  xLabel = 'update'
} = {}) {
  const shown = series.filter((each) => each.x.length);
  const ys = shown.flatMap((each) => [...each.y, ...(each.low || []), ...(each.high || [])])
                 .filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!ys.length) return el('p', {class: 'about'}, 'nothing yet');
  const xs = shown.flatMap((each) => [each.x[0], each.x.at(-1)]);
  let low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
  if (fromZero && !log) low = Math.min(0, low);
  const usual = [...ys].sort((a, b) => a - b)[Math.floor(0.97 * (ys.length - 1))];
  const above = robust && high > 4 * usual && usual > 0 ?
      ys.filter((value) => value > 1.5 * usual).length :
      0;
  if (above) high = 1.5 * usual;  // else a few points would hide all others
  if (!log) {
    const pad = (high - low) * 0.04;
    high += pad;
    if (low !== 0) low -= pad;
  }
  const chart =
      frame(width, height, [Math.min(...xs), Math.max(...xs)], [low, high], {log, yText, xLabel});
  chart.root.append(eventMarks(chart, events));
  for (const each of shown) {
    if (each.low)
      chart.root.append(svg('path', {
        class: 'band',
        fill: each.color,
        d: path(chart.x, chart.y, each.x, each.high) +
            path(chart.x, chart.y, [...each.x].reverse(), [...each.low].reverse())
                .replace('M', 'L') +
            'Z'
      }));
    chart.root.append(svg('path', {
      class: each.faint ? 'line faint' : 'line',
      stroke: each.color,
      d: path(chart.x, chart.y, each.x, each.y)
    }));
    if (each.dots || each.x.length === 1)
      each.x.forEach(
          (x, i) => chart.root.append(
              svg('circle', {r: 3.2, fill: each.color, cx: chart.x(x), cy: chart.y(each.y[i])})));
  }
  if (above)
    chart.root.append(
        svg('text', {x: chart.right, y: chart.top + 9, 'text-anchor': 'end'},
            `${plural(above, 'point')} above`));
  return addUpdateCursor(chart, shown.filter((each) => !each.faint), yText, events);
}

/**
 * Adds what hears the pointer and the arrow keys over a chart: a slider of `places`, and a cursor
 * with words at one of them. nearest(share of the width) is a place, at(place) its x. Returns the
 * chart, and its words as a table.
 */
function addCursor(chart, places, nearest, at, words) {
  const {left, right, top, bottom} = chart, cursor = svg('path', {class: 'cursor', d: ''});
  let place = places - 1;
  const tell = (x, y) => {
    cursor.setAttribute('d', `M${at(place)} ${top}V${bottom}`);
    catcher.setAttribute('aria-valuenow', place + 1);
    catcher.setAttribute('aria-valuetext', words(place));
    showTip(words(place), x, y);
  };
  const hide = () => {
    cursor.setAttribute('d', '');
    showTip('');
  };
  const catcher = svg('rect', {
    class: 'catcher own-tip',
    x: left,
    y: top,
    width: Math.max(1, right - left),
    height: bottom - top,
    tabindex: 0,
    role: 'slider',
    'aria-label': chartName + ', arrow keys',
    'aria-valuemin': 1,
    'aria-valuemax': places,
    'aria-valuenow': places,
    'aria-valuetext': words(place),
    onpointermove: (event) => {
      const x = event.clientX - chart.root.getBoundingClientRect().left;
      place = Math.min(places - 1, Math.max(0, nearest((x - left) / (right - left))));
      tell(event.clientX, event.clientY);
    },
    onpointerleave: hide,
    onblur: hide,
    onkeydown: (event) => {
      const by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10}[event.key];
      if (!by) return;
      event.preventDefault();
      place = Math.min(places - 1, Math.max(0, place + by));
      const box = chart.root.getBoundingClientRect();
      tell(box.left + at(place), box.top + top);
    }
  });
  chart.root.append(cursor);
  chart.root.insertBefore(catcher, chart.root.querySelector('.events'));
  return [chart.root, asTable(() => Array.from({length: places}, (_, i) => words(i).split('\n')))];
}

/** A cursor over updates, which tells the values of all series, and events. */
function addUpdateCursor(chart, series, yText, events) {
  const all =
      series.reduce((longest, each) => each.x.length > longest.length ? each.x : longest, []);
  const nearest = (list, step) => list.reduce(
      (best, value, i) => Math.abs(value - step) < Math.abs(list[best] - step) ? i : best, 0);
  const told = new Map();  // texts of events by place
  for (const {step, text} of events) {
    const place = nearest(all, step);
    told.set(place, [...told.get(place) || [], `after update ${count(step)}: ${text}`]);
  }
  const words = (place) => {
    const step = all[place], lines = [`update ${count(step)}`];
    for (const each of series) {
      const best = nearest(each.x, step);
      const at = each.x[best] === step ? '' : ` (update ${count(each.x[best])})`;
      lines.push(`${each.name}: ${(each.text || yText)(each.y[best])}${at}`);
    }
    return [...lines, ...told.get(place) || []].join('\n');
  };
  return addCursor(
      chart, all.length, (share) => nearest(all, chart.x0 + share * (chart.x1 - chart.x0)),
      (place) => chart.x(all[place]), words);
}

/**
 * Rows of stacked bars. rows: {name, values, note, thin}; parts: {name, color, className}.
 *  A row's bar is as long as its sum, or fitted to the width.
 */
function stackedBars(
    width, rows, parts, {text, fitted = false, label = 72, end = 78, inside = null}) {
  const highest = Math.max(...rows.map((row) => sum(row.values)), 1e-30);
  const dense = rows.length > 40, left = label, space = Math.max(40, width - left - end);
  const list = el('div', {
    class: 'bars' + (dense ? ' dense' : ''),
    role: 'application',
    'aria-label': chartName + ', arrow keys'
  });
  const bars = rows.flatMap((row) => {
    const all = sum(row.values), long = fitted ? space : space * all / highest;
    const bar = el('span', {class: 'bar', style: `width:${long.toFixed(1)}px`}), drawn = [];
    row.values.forEach((value, i) => {
      if (value <= 0 || all <= 0) return;
      const share = value / all, pixels = share * long;
      const words = inside ? inside(value, share) : text(value);
      const tip = `${row.full || row.name}: ${parts[i].name}\n${text(value)}, ${percent(share)}`;
      drawn.push(
          el('span', {
            class: parts[i].className || '',
            role: 'img',
            'aria-label': tip.replace('\n', ', '),
            style: `width:${(100 * share).toFixed(3)}%;` +
                (parts[i].color ? `background:${parts[i].color};color:${parts[i].ink || ''}` : ''),
            'data-tip': tip
          },
             !dense && !row.thin && pixels > words.length * 7.5 + 6 ? words : ''));
    });
    list.append(
        el('div', {class: 'row' + (row.thin ? ' thin' : '')},
           el('span', {class: 'name', style: `width:${left}px`}, dense && row.thin ? '' : row.name),
           add(bar, drawn), el('span', {class: 'end'}, row.note ?? text(all))));
    return drawn;
  });
  addKeys(list, bars);
  const cells = ({values}) => values.map((value, i) => `${parts[i].name}: ${text(value)}`);
  return [list, asTable(() => rows.map((row) => [row.full || row.name, ...cells(row)]))];
}

/** Bytes of each part that has any, a line each. */
const partsText = (values, parts) =>
    parts.map(({name}, i) => values[i] > 0 ? `${name}: ${bytes(values[i])}` : '')
        .filter(Boolean)
        .join('\n');

/** Columns: one for each slot, stacked. columns: lists of values by part; tips(i): its words. */
function columnChart(width, height, columns, parts, {xText, yText, range, tips}) {
  const highest = Math.max(...columns.map(sum), 1e-30);
  const chart = frame(width, height, range, [0, highest], {yText, xText});
  const slot = (chart.right - chart.left) / columns.length;
  columns.forEach((column, i) => {
    let below = 0;
    column.forEach((value, part) => {
      if (value <= 0) return;
      const y = chart.y(below + value);
      chart.root.append(svg('rect', {
        x: chart.left + i * slot,
        y,
        width: Math.max(0.7, slot - (slot > 4 ? 1 : 0)),
        height: Math.max(0, chart.y(below) - y),
        fill: parts[part].color
      }));
      below += value;
    });
  });
  return addCursor(
      chart, columns.length, (share) => Math.floor(share * columns.length),
      (i) => chart.left + (i + 0.5) * slot, tips);
}
