// Questions that a plan can be asked. Each answer is found in the plan's own records: a moment to
// look at, a cell whose chain of waiting is marked, and sentences.
'use strict';

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

function whyBubble(state, turn) {
  const {data, answer, time} = state, gaps = [];
  for (let rank = 0; rank < Math.min(data.ranks, 64); ++rank)
    gaps.push(...gapsOf(data, rank).slice(0, 4));
  const inner = gaps.filter(gap => gap.next >= 0 && data.cause[gap.next] >= 0)
                    .sort((a, b) => b.to - b.from - (a.to - a.from));
  const rest = gaps.filter(gap => !inner.includes(gap));
  const all = [...inner.slice(0, 6), ...rest.slice(0, 2)];
  if (!all.length) return {sentences: ['There is none: every rank computes all the time.']};
  const gap = all[turn % all.length], long = time.say(gap.to - gap.from);
  const share = percent((gap.to - gap.from) / data.seconds);
  const found = {
    seconds: (gap.from + gap.to) / 2,
    more: all.length > 1,
    path: gap.next >= 0 ? chainOf(data, gap.next) : []
  };
  const where =
      `Rank ${gap.rank} is idle from ${time.text(gap.from)} to ${time.text(gap.to)}, ${long}, ` +
      `which is ${share} of its time.`;
  if (gap.next < 0)
    return {
      ...found,
      sentences: [where, 'It has done all its work, and others still compute: the pipeline drains.']
    };
  const others =
      [...new Set(found.path.map(i => rankOf(data, i)))].filter(rank => rank !== gap.rank);
  const isBack = data.op[gap.next] === BACKWARD || data.op[gap.next] === INPUT_PART;
  const sentences = [
    where,
    `Next it runs the ${describe(data, gap.next)}, and cannot begin before: ` +
        (isBack && others.length ?
             'the gradient has to come back from the stages behind. Follow the marked chain: ' +
                 `microbatch ${
                     data.micro[gap.next]} goes forward through the ranks to the last stage, ` +
                 'and back again.' :
             others.length ? `the marked chain leads through rank${many(others)} ${
                                 others.slice(0, 8).join(', ')}.` :
                             'its own work before it.')
  ];
  if (answer.facts && !answer.facts.staleness && answer.header.steps > 1 && gap.from > 0 &&
      data.op[gap.next] === FORWARD)
    sentences.push(
        'Before the update the pipeline runs empty, since the next forwards must read the new ' +
        'weights; then it fills anew. Every update pays for it.');
  sentences.push(
      'All gaps together are the bubble, ' + percent(drawnBubble(answer)) +
      '. More microbatches an update make it smaller: the gaps stay as long, the work between ' +
      'them grows.');
  return {...found, sentences};
}

/** The moment at which a rank has most versions, and who still reads each of them. */
function whyVersions(state) {
  const {data, answer, time, holdings} = state, {held, byRank} = holdings;
  let best = {count: 0};
  for (let rank = 0; rank < data.ranks; ++rank) {
    const versions = byRank[rank].filter(i => held.hold[i] <= HOLD.copy);
    for (const i of versions) {
      const now = held.start[i],
            there = versions.filter(
                j => held.stage[j] === held.stage[i] && held.start[j] <= now && held.end[j] > now);
      const readers =
          there.filter(j => reads(data, rank, held.stage[j], held.number[j], now).length);
      if (there.length > best.count ||
          (there.length === best.count && readers.length > best.readers))
        best = {
          count: there.length,
          readers: readers.length,
          rank,
          stage: held.stage[i],
          now,
          numbers: there.map(j => held.number[j]).sort((a, b) => a - b)
        };
    }
  }
  const {rank, stage, now, numbers, count} = best;
  if (count < 2)
    return {
      sentences:
          ['One version of each stage is enough here: no backward is left that must read ' +
           'the old weights once an update has made new ones.']
    };
  const onTheWay = byRank[rank]
                       .filter(
                           i => held.hold[i] === HOLD.activations && held.stage[i] === stage &&
                               held.start[i] < now && held.end[i] > now)
                       .map(i => held.number[i])
                       .sort((a, b) => a - b);
  const old = numbers[0],
        turning = [...data.computes[rank]].filter(
            i => isPass(data.op[i]) && data.op[i] !== FORWARD && data.stage[i] === stage &&
                data.version[i] === old && data.start[i] >= now - data.seconds * 1e-6 &&
                onTheWay.includes(data.micro[i]));
  const newest = numbers[numbers.length - 1], older = numbers.slice(0, -1);
  const sentences =
      [`At ${time.text(now)} rank ${rank} has made version ${newest}, and keeps version${
           many(older)} ` +
       `${older.join(', ')} too: ${count} copies of its weights. Look at the chips below.`];
  if (turning.length) {
    const first = passOf(data, rank, turning[0])[0];
    sentences.push(
        `On the way at this moment: microbatch${many(onTheWay, 'es')} ${
            onTheWay.join(', ')}, with the ` +
        'forward done and the backward to come. ' +
        `Forward ${data.micro[first]} read version ${old} at ${time.text(data.start[first])}, so ` +
        `backward ${data.micro[first]} has to read version ${old} too, at ${
            time.text(data.start[turning[0]])} ` +
        '(both are marked): with other weights its gradient would belong to no model.');
    sentences.push(
        'With one copy, the rank could not update before the pipeline has run empty: that wait ' +
        'would be a bubble.');
  } else
    for (const number of numbers.slice(0, -1)) {
      const late = reads(data, rank, stage, number, now);
      if (late.length)
        sentences.push(
            `Version ${number} is read until the ${describe(data, late[late.length - 1])}, at ` +
            `${time.text(data.end[late[late.length - 1]])}.`);
    }
  const readsNew = data.computes[rank].find(
      i => isPass(data.op[i]) && data.version[i] === newest && data.stage[i] === stage);
  if (readsNew !== undefined)
    sentences.push(
        `Version ${newest} is first read by the ${describe(data, readsNew)}, at ` +
        `${time.text(data.start[readsNew])}. So the pipeline never runs empty; the price is the ` +
        'memory of the other copy, and gradients that are late.');
  const mark = turning[0];
  return {
    seconds: mark === undefined ? now : (data.start[mark] + data.end[mark]) / 2,
    path: mark === undefined ? [] : passOf(data, rank, mark),
    sentences
  };
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
  if (/cyclic/.test(answer.title)) all.push(['Why a round dance?', whyRound]);
  return all;
}
