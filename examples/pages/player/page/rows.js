// Rows of computations: a plan's text without its messages, which are added again before it is
// verified. Not here: what `plan lower` adds besides, as sums of replicas.

/** A plan's text without the messages between its stages. */
const withoutMessages = text =>
    text.replace(/(^| )\d+[ag]\d+[<>]\d+(?= |$)/gm, '').replace(/^ /gm, '');

/** The words of a text by line: {text, at: its column}, and what a computation's word says. */
function wordsByLine(text) {
  return text.split('\n').map(line => [...line.replace(/#.*/, '').matchAll(/\S+/g)].map(found => {
    const [, stage, op, micro] = found[0].match(/^(\d+)([FBIW])(\d+)v\d+$/) || [];
    return {text: found[0], at: found.index, op, stage: +stage, micro: +micro};
  }));
}

const rowsOf = lines => lines.filter(line => line.length).slice(1);  // behind the header

/**
 * Runs words, each as soon as its rank is free and its input is there: sets rank, start, end.
 * Returns the words at which ranks stand, by rank, once all of them wait; none: they never do.
 */
function runRows(rows) {
  const made = {}, clock = rows.map(() => 0), next = rows.map(() => 0);
  const kind = ({op}) => op === 'I' ? 'B' : op, all = rows.flat();
  let stuck = null;
  rows.forEach((row, rank) => row.forEach(word => {
    Object.assign(word, {rank, end: undefined});
    made[[kind(word), word.stage, word.micro]] ??= word;
  }));
  for (const word of all) {
    const step = {F: -1, B: 1}[kind(word)];
    word.input = step && made[[kind(word), word.stage + step, word.micro]];
  }
  for (let left = all.length; left > 0; --left) {
    const ready = word => !word || word.input && word.input.end === undefined ?
        Infinity :
        Math.max(clock[word.rank], word.input?.end || 0);
    const waiting = rows.map((row, rank) => row[next[rank]]);
    const word = waiting.reduce((best, each) => !best || ready(each) < ready(best) ? each : best);
    if (ready(word) === Infinity) stuck ??= waiting;  // one of them reads too early
    word.start = ready(word) < Infinity ? ready(word) : Math.max(...clock);
    word.end = clock[word.rank] =
        word.start + (word.long ?? {F: 1, B: 2, I: 1, W: 1}[word.op] ?? 0);
    ++next[word.rank];
  }
  return stuck;
}

/** Says which ranks wait for each other in words of a text without messages, if an input lacks. */
function sayOfInput({text = '', error}) {
  if (error?.rule !== 'input') return;
  error.message =
      error.message.replace(' and no recv for it is posted', '; no row makes it before');
  const stuck = runRows(rowsOf(wordsByLine(withoutMessages(text)))), waits = new Set();
  for (let at = stuck?.find(each => each); at && !waits.has(at); at = stuck[at.input.rank])
    waits.add(at);
  const words = Array.from(
      waits,
      ({rank, text, input}) =>
          `rank ${rank} is at ${text}, which needs ${input.text} of rank ` + input.rank);
  if (stuck)
    error.message = 'input: the computations wait for each other: ' + words.join('; ') +
        '. Move one of them behind what makes it possible';
}

/**
 * The computation that, moved ahead of others in its row, lets rows end soonest, while no rank
 * keeps more than `most` activations: {rank, record, before: a record, start}; null: there is
 * none, the rows are long, or messages and sums take time too.
 */
function bestMove(data, most = Infinity) {
  const letter = {[FORWARD]: 'F', [BACKWARD]: 'B', [INPUT_PART]: 'I', [WEIGHT_PART]: 'W'};
  const {op, stage: s, micro: m, version: v, start, end} = data;
  const wordOf = i =>
      ({i, op: letter[op[i]], stage: s[i], micro: m[i], version: v[i], long: end[i] - start[i]});
  const rows = data.computes.map(cells => Array.from(cells, wordOf));
  const lastEnd = rows => runRows(rows) ? Infinity : Math.max(...rows.flat().map(each => each.end));
  const isBound = (word, other) => word.stage === other.stage &&
      (other.op ? word.micro === other.micro : word.version === other.version);
  const {seconds} = data, isNear = Math.abs(lastEnd(rows) - seconds) < 1e-4 * seconds;
  let best = null, soonest = seconds * (1 - 1e-4);
  if (rows.flat().length > 128 || !isNear) return null;
  rows.forEach((row, rank) => row.forEach((word, k) => {
    for (let to = k - 1; to >= 0 && word.op && !isBound(word, row[to]); --to) {
      const moved = [...row.slice(0, to), word, ...row.slice(to, k), ...row.slice(k + 1)];
      let kept = 0;
      const isTooMuch = moved.some(({op}) => (kept += {F: 1, B: -1, W: -1}[op] || 0) > most);
      const last = isTooMuch ? Infinity : lastEnd(rows.map((each, r) => r === rank ? moved : each));
      if (last < soonest)
        [soonest, best] = [last, {rank, record: word.i, before: row[to].i, start: word.start}];
    }
  }));
  return best;
}

/**
 * A text of computations with the messages that connect them: each when its value is made, so in
 * one order on all ranks. Returns {text, source(line, column)}: the given word, {text, at}, that a
 * word of the result is, or is sent or received for.
 */
function withMessages(text) {
  const lines = wordsByLine(text), rows = rowsOf(lines);
  runRows(rows);
  const items = rows.map(row => row.map(word => ({text: word.text, time: word.start, of: word})));
  const messages = rows.flat().filter(({input, rank}) => input && input.rank !== rank);
  for (const word of messages.sort((a, b) => a.input.end - b.input.end)) {
    const {input, rank, op, stage, micro} = word;
    const name = op === 'F' ? `${input.stage}a${micro}` : `${stage}g${micro}`, time = input.end;
    items[input.rank].push({text: `${name}>${rank}`, time: time - 0.1, of: input});
    items[rank].push({text: `${name}<${input.rank}`, time: time - 0.1, of: word});
  }
  const sources = {}, out = text.split('\n');
  rows.forEach((row, rank) => {
    const line = lines.indexOf(row), found = sources[line] = new Map();
    let column = 0;
    items[rank].sort((a, b) => a.time - b.time);
    for (const item of items[rank]) {
      found.set(column, item.of);
      column += item.text.length + 1;
    }
    out[line] = items[rank].map(item => item.text).join(' ');
  });
  const source = (line, column) => sources[line]?.get(column);
  return {text: out.join('\n'), source};
}

/** An answer to withMessages(text), as the text of computations has its places. */
function answerOfRows(answer, text) {
  const {source} = withMessages(text), {error} = answer, places = unpackAll(answer.places);
  const shown = {...answer, text};
  if (answer.places) {
    const words = Array.from(places.line).flatMap((line, rank) => {
      const [from, end] = [places.row_begin[rank], places.row_begin[rank + 1]];
      return Array.from(places.column.slice(from, end), column => source(line, column));
    });
    shown.places = {
      ...places,
      column: words.map(word => word.at),
      length: words.map(word => word.text.length)
    };
  }
  const [line, column] = error?.place || [], word = source(line, column);
  if (error) shown.error = {...error, message: error.message.split('\n')[0]};
  if (word) shown.error.place = [line, word.at, word.text.length];
  return shown;
}
