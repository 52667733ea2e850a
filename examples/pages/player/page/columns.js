// Columns: numbers of many records. C++ writes them as "i8:...", "i16:...", "i32:..." or
// "f32:...", which is base64 of a typed array (columns.h); a plain array is one, too.
'use strict';

function unpack(column) {
  if (typeof column !== 'string') return column;
  const colon = column.indexOf(':');
  const type =
      {i8: Int8Array, i16: Int16Array, i32: Int32Array, f32: Float32Array}[column.slice(0, colon)];
  const bytes = atob(column.slice(colon + 1));
  const raw = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; ++i) raw[i] = bytes.charCodeAt(i);
  return new type(raw.buffer);
}

/** All columns of an object, unpacked; other members as they are. */
function unpackAll(columns) {
  const all = {};
  for (const [name, column] of Object.entries(columns || {})) all[name] = unpack(column);
  return all;
}

/** The first index of a sorted array at which `holds` is true; its length if there is none. */
function firstWhere(length, holds) {
  let low = 0, high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

const FORWARD = 0, BACKWARD = 1, UPDATE = 2, DROP = 3, SEND = 4, RECEIVE = 5, REDUCE = 6, FOLD = 7,
      NORM = 8, GATHER = 9, INPUT_PART = 10, WEIGHT_PART = 11;
const isPass = op => op === FORWARD || op === BACKWARD || op === INPUT_PART || op === WEIGHT_PART;
const isCompute = op => isPass(op) || op === UPDATE;
const isCollective = op => op === REDUCE || op === NORM || op === GATHER;

/**
 * What a Timeline draws, from an answer's records (player_facts.h) or a report's: the columns, and
 * by rank the places of computations, collectives and sends in the order of time.
 *   answer: {seconds, bars, records: {row_begin, op, stage, micro, version, start, end, ...}}
 */
function timelineData(answer) {
  const data = unpackAll(answer.records);
  const ranks = data.row_begin.length - 1;
  Object.assign(data, {
    ranks,
    seconds: answer.seconds,
    bars: answer.bars || [],
    computes: [],
    updates: [],
    meetings: [],
    sends: [],
    chunk: {}
  });
  for (const name of ['what', 'peer', 'cause', 'other', 'bytes', 'again', 'cell'])
    if (!data[name])
      data[name] =
          new Int8Array(data.op.length).fill(name === 'cause' || name === 'other' ? -1 : 0);
  for (let rank = 0; rank < ranks; ++rank) {
    const computes = [], meetings = [], sends = [], stages = new Set();
    for (let i = data.row_begin[rank]; i < data.row_begin[rank + 1]; ++i) {
      const op = data.op[i];
      if (isCompute(op))
        computes.push(i);
      else if (isCollective(op))
        meetings.push(i);
      else if (op === SEND && data.other[i] >= 0)
        sends.push(i);
      if (isPass(op)) stages.add(data.stage[i]);
    }
    const byStart = (a, b) => data.start[a] - data.start[b];
    data.computes.push(Int32Array.from(computes));
    data.updates.push(data.computes[rank].filter(i => data.op[i] === UPDATE));
    data.meetings.push(Int32Array.from(meetings.sort(byStart)));
    data.sends.push(Int32Array.from(sends.sort(byStart)));
    // The chunk of a stage: which of the rank's stages it is.
    [...stages].sort((a, b) => a - b).forEach((stage, k) => data.chunk[rank + ',' + stage] = k);
    if (stages.size > 1) data.severalStages = true;
  }
  return data;
}

/** The rank of a record. */
function rankOf(data, record) {
  return firstWhere(data.ranks, rank => data.row_begin[rank + 1] > record);
}

/** The computation of a rank at a moment: its place in data.computes[rank], or -1 while idle. */
function computationAt(data, rank, seconds) {
  const cells = data.computes[rank];
  const k = firstWhere(cells.length, i => data.end[cells[i]] > seconds);
  return k < cells.length && data.start[cells[k]] <= seconds ? k : -1;
}

/** A record in words: "backward of microbatch 3 on stage 1". */
function describe(data, i) {
  const op = data.op[i], stage = data.stage[i], micro = data.micro[i], version = data.version[i];
  const pass = `of microbatch ${micro} on stage ${stage}`;
  const value = {
    1: `the output of stage ${stage} for microbatch ${micro}`,
    2: `the gradient of stage ${stage}'s output for microbatch ${micro}`,
    3: `the gradient sum of stage ${stage}`,
    4: `version ${version} of stage ${stage}`,
    6: `the turn of microbatch ${micro}`
  }[data.what[i]] ||
      'a value';
  return {
    [FORWARD]: (data.again[i] ? 'second forward ' : 'forward ') + pass,
    [BACKWARD]: 'backward ' + pass,
    [INPUT_PART]: 'backward, input part, ' + pass,
    [WEIGHT_PART]: 'backward, weight part, ' + pass,
    [UPDATE]: `update of stage ${stage} to version ${version}`,
    [DROP]: 'drop of ' + value,
    [SEND]: `message with ${value} to rank ${data.peer[i]}`,
    [RECEIVE]: `message with ${value} from rank ${data.peer[i]}`,
    [REDUCE]: `sum of gradients of stage ${stage} for version ${version}`,
    [FOLD]: `sum of gradients of stage ${stage}`,
    [NORM]: `norm of the gradient for version ${version}`,
    [GATHER]: `gather of version ${version} of stage ${stage}`
  }[op];
}
