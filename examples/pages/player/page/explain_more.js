// More questions that a plan can be asked: memory, staleness, shards, the round dance.
// Not here: the bubble and versions (explain.js).

function whyMemory(state) {
  const {data, answer, time, holdings} = state, {held, byRank} = holdings,
                             peaks = answer.peaks.activations;
  const rank = peaks.indexOf(Math.max(...peaks)),
        list = byRank[rank].filter(i => held.hold[i] === HOLD.activations);
  const at = i => list.filter(j => held.start[j] <= held.start[i] && held.end[j] > held.start[i]);
  const most = list.map(at).reduce((a, b) => b.length > a.length ? b : a, []);
  const now = Math.max(0, ...most.map(i => held.start[i]));
  const micros = [...new Set(most.map(i => held.number[i]))].sort((a, b) => a - b);
  const first = list.reduce(
      (a, b) => held.end[b] - held.start[b] > held.end[a] - held.start[a] ? b : a, list[0]);
  if (first === undefined) return {sentences: ['Nothing is kept: there are no backwards.']};
  const long = time.say(held.end[first] - held.start[first]);
  const back = data.computes[rank].find(
      i => (data.op[i] === BACKWARD || data.op[i] === WEIGHT_PART) &&
          data.micro[i] === held.number[first] && data.stage[i] === held.stage[first]);
  return {
    seconds: now,
    path: back === undefined ? [] : passOf(data, rank, back),
    sentences: [
      `At ${time.text(now)} rank ${rank} keeps the most: activations of microbatch${
          many(micros, 'es')} ${micros.join(', ')}` +
          (most.length > micros.length ? ` (${most.length} in all, as it has several stages).` :
                                         '.'),
      'A forward’s activations stay until its backward has used them. ' +
          `Those of microbatch ${held.number[first]} stay longest: ${long}, since the microbatch ` +
          'goes on through the stages behind, and its gradient comes back through them.',
      Math.min(...peaks) < Math.max(...peaks) ?
          'Ranks near the end of the pipeline get their gradients back sooner: ' +
              `the emptiest rank keeps ${Math.min(...peaks)} at most.` :
          'Every rank keeps as many, at some moment.'
    ]
  };
}

function whyStale(state) {
  const {data, answer, time} = state, {per_step: step} = answer.header;
  let best = null;
  for (let rank = 0; rank < data.ranks; ++rank)
    for (const i of data.computes[rank]) {
      if (data.op[i] !== BACKWARD && data.op[i] !== WEIGHT_PART) continue;
      const made = Math.floor(data.micro[i] / step) + 1, late = made - 1 - data.version[i];
      if (!best || late > best.late) best = {late, made, i, rank};
    }
  if (!best || best.late <= 0)
    return {
      sentences: ['No gradient is late: each is taken at the version that its update changes.']
    };
  const {late, made, i, rank} = best;
  return {
    seconds: (data.start[i] + data.end[i]) / 2,
    path: passOf(data, rank, i),
    sentences: [
      `The ${describe(data, i)} reads version ${
          data.version[i]}. Its gradient goes into the update ` +
          `that makes version ${made} from version ${made - 1}.`,
      `So the gradient was taken ${late} update${late > 1 ? 's' : ''} too early: W(${made}) = ` +
          `W(${made - 1}) − lr × gradient at W(${data.version[i]}). That is its staleness, ${
              late}.`,
      'It is the price of a pipeline that never runs empty; chapter 7 has its cost in loss.'
    ]
  };
}

function whyShards(state) {
  const {answer, data} = state, {sharded, holders} = answer.header,
                 members = holders?.[0] || data.ranks;
  const gather = data.meetings[0].find(i => data.op[i] === GATHER);
  const sentences =
      [`The ${members} ranks of a group would all keep the same optimizer state. ` +
       `With ZeRO each keeps 1/${members} of it: its shard.`];
  if (sharded >= 2)
    sentences.push(
        'From level 2 on, sums of gradients too: after the reduction a rank keeps its part only.');
  sentences.push(
      sharded === 3 ?
          'At level 3 also the weights. Before a forward or backward of a stage, the group gathers ' +
              'all of its weights (“all w” among the chips), and drops them after it. Step through with ' +
              'the arrow keys and watch the chips come and go.' :
          'After its update a rank has new values for its shard alone, so the group gathers the ' +
              'weights.');
  return {seconds: gather === undefined ? 0 : data.end[gather], path: [], sentences};
}

function whyRound(state) {
  const {data, time} = state, step = firstTime(data);
  return {
    seconds: data.seconds / 2,
    path: [],
    sentences: [
      'Look at a column anywhere in the middle: in each time step every stage is computed once, ' +
          'by another rank. In the next one, all move on by a stage, as in a round dance.',
      'So sums of gradients travel one by one, evenly over time, and not all at once at the end ' +
          'of an update: see “Sent over time”. And the activations of all ranks together stay ' +
          `level: while one goes forward, another goes back (a time step takes ${time.say(step)}).`
    ]
  };
}
const firstTime = data =>
    data.computes[0].length ? data.end[data.computes[0][0]] - data.start[data.computes[0][0]] : 0;
