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

/** Runs words, each as soon as its rank is free and its input is there: sets rank, start, end. */
function runRows(rows) {
  const made = {}, clock = rows.map(() => 0), next = rows.map(() => 0);
  const kind = ({op}) => op === 'I' ? 'B' : op;
  rows.forEach((row, rank) => row.forEach(word => {
    word.rank = rank;
    made[[kind(word), word.stage, word.micro]] ??= word;
  }));
  rows.flat().forEach(word => {
    const step = {F: -1, B: 1}[kind(word)];
    word.input = step && made[[kind(word), word.stage + step, word.micro]];
  });
  for (let left = rows.flat().length; left > 0; --left) {
    const ready = word => word.input && word.input.end === undefined ?
        Infinity :
        Math.max(clock[word.rank], word.input?.end || 0);
    const waiting = rows.map((row, rank) => row[next[rank]]).filter(word => word);
    const word = waiting.reduce((best, each) => ready(each) < ready(best) ? each : best);
    const start = ready(word);  // never where all wait: then one reads too early
    word.start = start < Infinity ? start : Math.max(...clock);
    word.end = clock[word.rank] = word.start + ({F: 1, B: 2, I: 1, W: 1}[word.op] || 0);
    ++next[word.rank];
  }
}

/**
 * A text of computations with the messages that connect them: each when its value is made, so in
 * one order on all ranks. Returns {text, source(line, column)}: the given word, {text, at}, that a
 * word of the result is, or is sent or received for.
 */
function withMessages(text) {
  const lines = wordsByLine(text), rows = lines.filter(line => line.length).slice(1);
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
