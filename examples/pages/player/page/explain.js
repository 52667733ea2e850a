// Questions that a plan can be asked. Each answer is found in the plan's own records: a moment to
// look at, a cell whose chain of waiting is marked, and sentences.

const many = (list, ending = 's') => list.length > 1 ? ending : '';

/** The chain of records that each waited for the next one, from a record back to the start. */
function chainOf(data, record) {
  const chain = [];
  for (let i = record; i >= 0 && chain.length < data.op.length; i = data.cause[i]) chain.push(i);
  return chain.reverse();
}

/** The gaps of a rank's computations, the longest first: {rank, from, to, next}. */
function gapsOf(data, rank) {
  const gaps = [], cells = data.computes[rank];
  let end = 0;
  for (const i of cells) {
    if (data.start[i] > end + data.seconds * 1e-6)
      gaps.push({rank, from: end, to: data.start[i], next: i});
    end = Math.max(end, data.end[i]);
  }
  if (data.seconds > end * (1 + 1e-6)) gaps.push({rank, from: end, to: data.seconds, next: -1});
  return gaps.sort((a, b) => b.to - b.from - (a.to - a.from));
}

/** Why a rank is idle in a gap. */
function whyGap(state, gap) {
  const {data, answer: {header}, time} = state, move = moveOf(state);
  const share = percent((gap.to - gap.from) / data.seconds);
  const found = {
    seconds: (gap.from + gap.to) / 2,
    path: gap.next >= 0 ? chainOf(data, gap.next) : []
  };
  const where = `Rank ${gap.rank} is idle from ${time.text(gap.from)} to ${time.text(gap.to)}, ${
      time.say(gap.to - gap.from)}, which is ${share} of its time.`;
  if (gap.next < 0)
    return {
      ...found,
      sentences: [where, 'It has done all its work, and others still compute: the pipeline drains.']
    };
  if (move?.rank === gap.rank && move.start >= gap.from && move.start < gap.to)
    return {...found, sentences: [where, wordsOfMove(state, move)]};
  const others =
      [...new Set(found.path.map(i => rankOf(data, i)))].filter(rank => rank !== gap.rank);
  const isBack = data.op[gap.next] === BACKWARD || data.op[gap.next] === INPUT_PART;
  const cause = data.cause[gap.next], last = cause >= 0 ? data.op[cause] : -1;
  const chain =
      `the marked chain leads through rank${many(others)} ${others.slice(0, 8).join(', ')}.`;
  const sentences = [
    where,
    `Next it runs the ${describe(data, gap.next)}, and cannot begin before: ` +
        (isCollective(last) ?
             `the ${describe(data, cause)} ends at ${time.text(data.end[cause])}. All ranks of ` +
                 'a group take part in it, so it begins when the last of them is there.' :
             !others.length ? 'its own work before it.' :
             isBack         ? 'the gradient has to come back from the stages behind; ' + chain :
                              chain)
  ];
  if (move && found.path.includes(move.record)) sentences.push(wordsOfMove(state, move));
  const update = found.path.findLast(i => data.op[i] === UPDATE);
  const reader = found.path[found.path.indexOf(update) + 1];
  if (data.op[reader] === FORWARD && data.version[reader] === data.version[update] &&
      data.start[reader] <= gap.to && data.end[update] >= gap.from &&
      drainedUpdates(state)[Math.floor(data.micro[reader] / header.per_step) - 1])
    sentences.push(
        'Before the update the pipeline runs empty, since the next forwards must read the new ' +
        'weights; then it fills anew. Every update pays for it.');
  return {...found, sentences};
}

/** The move that makes a plan shorter which was given as a text; null: there is none. */
function moveOf({data, answer, request}) {
  if (answer.move === undefined)
    answer.move =
        request.plan && answer.facts ? bestMove(data, levels[request.game]?.most.kept) : null;
  return answer.move;
}

const wordsOfMove = ({data, time}, {rank, record, before, start}) => `Rank ${rank} could run the ${
    describe(data, record)} from ${time.text(start)} on, ahead of the ${
    describe(data, before)}: all that it needs is there by then, but its row has it later.`;

/** For each update but the first, whether its first forward begins when all before it are back. */
function drainedUpdates({data, answer: {header}}) {
  const first = [], last = [];
  for (const i of data.computes.flatMap(cells => [...cells]).filter(i => isPass(data.op[i]))) {
    const k = Math.floor(data.micro[i] / header.per_step);
    first[k] = Math.min(first[k] ?? Infinity, data.start[i]);
    if (data.op[i] !== WEIGHT_PART) last[k] = Math.max(last[k] ?? 0, data.end[i]);
  }
  return first.map((start, k) => !(last[k - 1] > start + data.seconds * 1e-6)).slice(1);
}

/** The gaps of all ranks, one after the other: those that an order causes, then those in a row. */
function whyBubble(state, turn) {
  const {data, answer, request} = state, gaps = [], move = moveOf(state);
  for (let rank = 0; rank < Math.min(data.ranks, 64); ++rank)
    gaps.push(...gapsOf(data, rank).slice(0, 4));
  const hasMove = gap => move &&
      (gap.rank === move.rank && move.start >= gap.from && move.start < gap.to ||
       chainOf(data, gap.next).includes(move.record));
  const inner = gaps.filter(gap => gap.next >= 0 && data.cause[gap.next] >= 0)
                    .sort((a, b) => hasMove(b) - hasMove(a) || b.to - b.from - (a.to - a.from));
  const rest = gaps.filter(gap => !inner.includes(gap));
  const all = [...inner.slice(0, 6), ...rest.slice(0, 2)];
  if (!all.length) return {sentences: ['There is none: every rank computes all the time.']};
  const found = whyGap(state, all[turn % all.length]);
  found.sentences.push(`All gaps together are the bubble, ${percent(answer.facts.bubble)}. ${
      move || request.game >= 0 ? '' : howBubbleShrinks(state)}`);
  return {...found, more: all.length > 1};
}

/** The rank that computes longest, if others wait for it at every microbatch. */
function whoIsSlow(data) {
  const busy = Array.from(
      data.computes, cells => [...cells].reduce((all, i) => all + data.end[i] - data.start[i], 0));
  const most = Math.max(...busy), mean = busy.reduce((all, each) => all + each, 0) / busy.length;
  if (most < 1.1 * mean) return null;
  return {rank: busy.indexOf(most), excess: most / mean - 1, stays: 1 - mean / most};
}

/** What makes the bubble smaller, which depends on whether the pipeline drains at updates. */
function howBubbleShrinks(state) {
  const {data, answer: {facts}} = state, drained = drainedUpdates(state);
  if (drained.every(each => each)) {
    const uneven = whoIsSlow(data), more = 'More microbatches an update make ';
    if (!uneven) return more + 'it smaller: the gaps stay as long, the work between them grows.';
    return `Rank ${uneven.rank} computes for ${
               percent(uneven.excess)} longer than the ranks do on ` +
        `average, and they wait for it: ${percent(uneven.stays)} of their time, however many ` +
        `microbatches there are. ${more}only the rest of it smaller.`;
  }
  if (drained.some(each => each)) return '';
  return 'The pipeline does not drain at updates: it fills at the start of the run and drains at ' +
      'its end. The more updates between them, the smaller is the share' +
      (facts.steady_state ? `; in a long run, ${percent(facts.steady_state.bubble)} stay.` : '.');
}

/** The moment at which a rank has most versions, and who still reads each of them. */
function whyVersions(state) {
  const {data, answer, time, holdings} = state, {held, byRank} = holdings, {header} = answer;
  let best = {numbers: []};
  for (let rank = 0; rank < data.ranks; ++rank) {
    const versions = byRank[rank].filter(i => held.hold[i] <= HOLD['copy of weights']);
    for (const i of versions) {
      const now = held.start[i], stage = held.stage[i];
      const there = versions.filter(
          j => held.stage[j] === stage && held.start[j] <= now && held.end[j] > now);
      const numbers = [...new Set(there.map(j => held.number[j]))].sort((a, b) => a - b);
      const readers = numbers.filter(k => reads(data, rank, stage, k, now).length).length;
      if (numbers.length > best.numbers.length ||
          (numbers.length === best.numbers.length && readers > best.readers))
        best = {numbers, readers, rank, stage, now, there};
    }
  }
  const {rank, stage, now, numbers, there} = best;
  if (numbers.length < 2)
    return {
      sentences: [
        header.drift ?
            'Updates overwrite the weights, so a backward may read newer ones than its forward ' +
                `did, up to ${header.drift} here. That saves the memory of other versions; the ` +
                'gradient is of neither model, only near both.' :
            'One version of each stage is enough here: no backward is left that must read the ' +
                'old weights once an update has made new ones.'
      ]
    };
  const onTheWay = heldAt(holdings, rank, now, data.seconds)
                       .filter(i => held.hold[i] === HOLD.activations && held.stage[i] === stage)
                       .map(i => held.number[i]);
  const newest = numbers[numbers.length - 1], older = numbers.slice(0, -1);
  const turning = reads(data, rank, stage, older[0], now)
                      .filter(i => data.op[i] !== FORWARD && onTheWay.includes(data.micro[i]));
  const sentences = [
    `At ${time.text(now)} rank ${rank} has made version ${newest}, and keeps version${
        many(older)} ` +
    `${older.join(', ')} too: ${numbers.length} copies of its weights. Look at the chips below.`
  ];
  if (turning.length) {
    const [forward] = passOf(data, rank, turning[0]), micro = data.micro[forward];
    sentences.push(
        `It also keeps the activations of microbatch${many(onTheWay, 'es')} ${
            onTheWay.join(', ')}, whose backwards are to come. Forward ${micro} read version ${
            older[0]} at ${time.text(data.start[forward])}, so backward ${micro} has to read it ` +
        `too, at ${time.text(data.start[turning[0]])} (both are marked): with other weights its ` +
        'gradient would belong to no model.');
    const update = Math.floor(micro / header.per_step),
          ofUpdate = [...data.computes[rank]].filter(
              i => isPass(data.op[i]) && data.stage[i] === stage &&
                  Math.floor(data.micro[i] / header.per_step) === update);
    if (header.per_step > 1 && ofUpdate.every(i => data.version[i] === older[0]))
      sentences.push(`All ${header.per_step} microbatches of an update read one version, here ${
          older[0]}, since their gradients add up to one gradient, of one model.`);
  }
  for (const i of there.filter(i => held.number[i] !== newest)) {
    const last = reads(data, rank, stage, held.number[i], now).pop();
    sentences.push(
        last === undefined ?
            `No more of what is drawn reads version ${held.number[i]}; it is kept for later.` :
            `Version ${held.number[i]} is dropped at ${time.text(held.end[i])}, when its last ` +
                `reader ends, the ${describe(data, last)}.`);
  }
  const [readsNew] = reads(data, rank, stage, newest, -1);
  if (readsNew !== undefined)
    sentences.push(
        `Version ${newest} is first read by the ${describe(data, readsNew)}, at ` +
        `${time.text(data.start[readsNew])}. With one copy, the rank could not update before the ` +
        'pipeline has run empty. The price is the memory of the other copy, and late gradients.');
  return {seconds: now, path: turning.length ? passOf(data, rank, turning[0]) : [], sentences};
}

/** The forward of a backward, and the backward. */
function passOf(data, rank, i) {
  const forward = data.computes[rank].find(
      j => data.op[j] === FORWARD && data.micro[j] === data.micro[i] &&
          data.stage[j] === data.stage[i]);
  return forward === undefined ? [i] : [forward, i];
}

/** A rank's computations that read a version of a stage and end after a moment. */
function reads(data, rank, stage, version, now) {
  return [...data.computes[rank]].filter(
      i => isPass(data.op[i]) && data.stage[i] === stage && data.version[i] === version &&
          data.end[i] > now);
}

/** The questions that make sense for an answer: [label, function]. */
function questionsOf(answer) {
  const {facts, header} = answer, all = [];
  if (!facts || !answer.records) return all;
  all.push(['Where is the bubble?', whyBubble]);
  const most = greatest(facts.live_versions);
  all.push([
    most > 1 ? `Why ${{2: 'two', 3: 'three', 4: 'four'}[most] || most} versions?` :
               'Why is one version enough?',
    whyVersions
  ]);
  if (header.steps > 0) all.push(['Where is memory fullest?', whyMemory]);
  if (facts.staleness > 0) all.push(['What is late?', whyStale]);
  if (header.sharded > 0) all.push(['What does ZeRO shard?', whyShards]);
  const ranks = answer.peaks.activations.length;
  if (answer.request?.schedule?.startsWith('cyclic') && ranks > 1)
    all.push(['Why a round dance?', whyRound]);
  return all;
}
