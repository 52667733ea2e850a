// The head of the page: the idea, the four numbers, the formula; the table of all numbers; the
// legend. With a pinned plan A, every number says how much it differs.

const greatest = list => list && list.length ? Math.max(...list) : 0;

/** Replaces an endless plan's facts of time by those of the two bodies that are drawn. */
function useDrawn(answer, data) {
  const {facts, idle, seconds} = answer;
  if (!facts?.steady_state) return;
  Object.assign(facts, {
    bubble: idle.reduce((all, each) => all + each, 0) / idle.length,
    makespan: seconds,
    bytes: data.bytes.reduce((all, each) => all + each, 0)
  });
  delete facts.breakdown;  // of another length of the plan
}

/** The four numbers of an answer; null where a broken plan has none. */
function fourNumbers(answer) {
  const {facts} = answer;
  if (!facts) return null;
  const long = facts.steady_state, models = greatest(facts.peak_models);
  return [
    {
      name: 'bubble: the share of time in which ranks are idle' + (long ? ', in a long run' : ''),
      more: long && `${percent(facts.bubble)} in what is drawn`,
      value: long ? long.bubble : facts.bubble,
      text: percent,
      secret: true
    },
    {
      name: `forwards of which the fullest rank keeps the activations at once (${
          digits(models)} microbatch${models > 1 ? 'es' : ''} of the whole model)`,
      value: greatest(facts.peak_microbatches),
      text: digits
    },
    {
      name: facts.drift ? `version of the weights on a rank; a backward's is up to ${
                              facts.drift} newer than its forward's` :
                          'versions of a stage’s weights on a rank at once',
      value: greatest(facts.live_versions),
      text: digits
    },
    {name: 'staleness: updates that a gradient is late', value: facts.staleness, text: digits},
  ];
}

function difference(number, other) {
  if (!other) return '';
  const by = number.value - other.value, sign = by > 0 ? '+' : '−';
  const text = number.text === percent ? (100 * Math.abs(by)).toFixed(1) + ' points' :
                                         number.text(Math.abs(by));
  return `A: ${number.text(other.value)}` +
      (Math.abs(by) < 1e-9 ? ', the same' : `, B ${sign}${text}`);
}

function titleOf(answer) {
  const {header} = answer;
  if (!header) return answer.title || 'a plan';
  const replicas =
      answer.request?.data_parallel > 1 ? `, ${answer.request.data_parallel} replicas` : '';
  const zero = header.sharded ? `, ZeRO ${header.sharded}` : '';
  return `${answer.title}: ${plural(header.ranks, 'rank')}, ${plural(header.stages, 'stage')}, ` +
      `${plural(header.per_step, 'microbatch')} an update, ` +
      (header.period ? 'endless; the part between the violet bars repeats' :
                       plural(header.steps, 'update')) +
      replicas + zero;
}

function showHead(answer, pinned) {
  byId('title').textContent = titleOf(answer);
  document.title = titleOf(answer) + ' · plangrad';
  byId('idea').replaceChildren(
      answer.idea ||
          'A plan says what every rank computes, sends and receives, in which order, and on ' +
              'which version of the weights.',
      ...(answer.paper ? [' ', el('cite', {}, answer.paper)] : []));
  const numbers = fourNumbers(answer), others = pinned && fourNumbers(pinned);
  byId('numbers').replaceChildren(...(numbers || []).map((number, k) => {
    const className = number.secret ? 'secret' : '';
    return el(
        'div', {className: 'number'}, el('b', {className}, number.text(number.value)),
        el('span', {}, number.name), number.more ? el('span', {className}, number.more) : null,
        others ? el('i', {className}, difference(number, others[k])) : null);
  }));
  if (!numbers)
    byId('numbers').append(
        el('p', {className: 'error'},
           answer.records ? 'This plan breaks a rule. It is drawn up to its fault.' :
                            answer.error.message));
  if (pinned?.header && answer.header && pinned.header.steps !== answer.header.steps)
    byId('numbers').append(el(
        'p', {className: 'notice'},
        `A has ${plural(pinned.header.steps, 'update')}, B has ${
            answer.header.steps}: compare bubbles and times of as many, since a pipeline fills ` +
            'and drains once in each plan.'));
  showFormula(answer);
}

function showFormula(answer) {
  const {formula, facts} = answer, to = byId('formula');
  to.className = 'dim secret';
  to.textContent = '';
  if (!facts) return;
  if (formula) {
    const value = `${percent(formula.value)}`;
    const sum =
        formula.letters === '0' ? value : `${formula.letters} = ${formula.numbers} = ${value}`;
    const same = Math.abs(formula.value - facts.bubble) < 5e-4;
    to.textContent = `bubble = ${sum}   (${formula.where}). ` +
        (same ? '' : `Here it is ${percent(facts.bubble)}, as not all of this holds.`);
  }
  if (answer.note)
    to.textContent += (formula ? ' Note: ' : 'No short formula holds here: ') + answer.note;
}

/** The facts of the table that the plan has: [name, about, value, text of a number]. */
function allNumbers(answer, time) {
  const {facts} = answer,
        valueAt = place => place.split('/').slice(1).reduce((at, key) => at?.[key], facts);
  const texts = {count: digits, share: percent, seconds: time.say, bytes: bytesText};
  const listed = (list, text) => list.every(Array.isArray) ?
      (list.length > 16 ? '' : list.map(each => each.join('+')).join(' ')) :
      list.length > 16 ? `${text(Math.min(...list))} to ${text(Math.max(...list))}` :
                         list.map(text).join(' ');
  const rows = [];
  for (const [name, about, place, unit] of facts ? answer.table : []) {
    const value = valueAt(place), text = texts[unit];
    if (Array.isArray(value))
      rows.push([name, about, listed(value, text)]);
    else if (value && typeof value === 'object')
      rows.push([
        name, about,
        Object.entries(value).map(([kind, count]) => `${count} ${kind}`).join(', ') || 'none'
      ]);
    else if (value !== undefined)
      rows.push([name, about, value, text]);
  }
  return rows;
}

function showTable(answer, pinned, time) {
  const rows = allNumbers(answer, time), others = pinned ? allNumbers(pinned, time) : [];
  const show = ([, , value, text]) => text ? text(value) : value;
  const head = pinned ?
      [el('tr', {}, el('th'), el('th', {}, 'A'), el('th', {}, 'B'), el('th', {}, 'B − A'))] :
      [];
  byId('table').replaceChildren(el('table', {}, ...head, ...rows.map(row => {
    const other = others.find(each => each[0] === row[0]);
    const cells = [el('td', {}, '' + show(row))];
    if (pinned) {
      cells.unshift(el('td', {}, other ? '' + show(other) : ''));
      cells.push(
          el('td', {},
             other && row[3] && row[3] !== bytesText ?
                 (row[2] >= other[2] ? '+' : '−') + row[3](Math.abs(row[2] - other[2])) :
                 ''));
    }
    return el('tr', {className: 'secret'}, el('th', {}, row[0], el('small', {}, row[1])), ...cells);
  })));
  byId('table-card').hidden = !rows.length;
}

/** The meanings of colours and marks that the picture has. */
function showLegend(data) {
  const to = byId('legend'), seen = new Set(), marks = [];
  let again = false, shades = false;
  for (const cells of data.computes)
    for (const i of cells) {
      seen.add(cellColour(data, i));
      again ||= data.again[i] > 0;
    }
  const item = (members, text) => el('span', {}, el('i', members), text);
  for (const [kind, name] of [
           ['forward', 'forward'], ['backward', 'backward'], ['input-part', 'backward, input part'],
           ['weight-part', 'weight part']]) {
    const there = [0, 1, 2, 3].filter(k => seen.has(`${kind}-${k}`));
    if (!there.length) continue;
    const swatches = there.map(k => el('i', {style: `background:var(--${kind}-${k})`}));
    marks.push(el('span', {}, ...swatches, name));
    shades ||= there.length > 1;
  }
  if (shades) marks.push(el('span', {}, 'shade: version of the weights, mod 4'));
  if (again)
    marks.push(item({className: 'again', style: 'background:var(--forward-0)'}, 'computed again'));
  if (seen.has('update')) marks.push(item({className: 'update'}, 'update'));
  if (data.severalStages)
    marks.push(
        item({className: 'chunk', style: 'background:var(--forward-0)'}, 'its second stage'));
  if (data.bars.length)
    marks.push(item({style: 'width:2px;height:14px;background:var(--bar)'}, 'the body repeats'));
  marks.push(item({className: 'bubble'}, 'bubble'));
  if (data.sends.some(list => list.length))
    marks.push(item({className: 'message', style: 'background:var(--activations)'}, 'message'));
  if (data.meetings.some(list => list.length))
    marks.push(
        item({style: 'height:4px;background:var(--reductions)'}, 'sum or gather of a group'));
  to.replaceChildren(...marks);
}
