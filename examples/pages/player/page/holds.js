// What every rank holds at the moment of the cursor, as chips; ranks in pages of sixteen.

const HOLD = {};  // the number of each kind by its name, as the answer has them
const ranksOnPage = 16;
const valueNames = ['value', 'output', 'gradient', 'sum', 'weights', 'norm', 'turn'];

/** The holdings of an answer, by rank: {hold, what, stage, number, start, end}, sorted by start. */
function holdingsByRank(answer) {
  answer.holds.forEach((name, number) => HOLD[name] = number);
  const held = unpackAll(answer.held), byRank = [];
  for (let rank = 0; rank < answer.header.ranks; ++rank) byRank.push([]);
  for (let i = 0; i < held.rank.length; ++i) byRank[held.rank[i]].push(i);
  return {held, byRank};
}

/** The places of what a rank holds at a moment. At the very end, what it ends with. */
function heldAt({held, byRank}, rank, seconds, end) {
  const list = byRank[rank], found = [];
  const now = Math.min(seconds, end * (1 - 1e-6));
  for (const i of list) {
    if (held.start[i] > now) break;
    if (held.end[i] > now) found.push(i);
  }
  return found.sort(
      (a, b) => held.hold[a] - held.hold[b] || held.stage[a] - held.stage[b] ||
          held.number[a] - held.number[b]);
}

class Holds {
  constructor(host, pages, clock) {
    Object.assign(this, {host, pages, clock, page: 0});
    drawAtMoments(host, clock, () => this.update());
  }

  show(answer, data) {
    Object.assign(this, {answer, data, time: timeUnit(answer.request?.costs, data.seconds)});
    this.all = holdingsByRank(answer);
    const pages = Math.ceil(data.ranks / ranksOnPage);
    this.page = Math.min(this.page, pages - 1);
    const button = (_, page) => {
      const last = Math.min((page + 1) * ranksOnPage, data.ranks) - 1, onclick = ({target}) => {
        this.page = page;
        for (const each of this.pages.children) each.setAttribute('aria-pressed', each === target);
        this.update();
      };
      const members = {type: 'button', 'aria-pressed': `${page === this.page}`, onclick};
      return el('button', members, `${page * ranksOnPage}–${last}`);
    };
    this.pages.replaceChildren(
        ...Array.from({length: pages < 2 ? 0 : Math.min(pages, 64)}, button));
    this.severalStages =
        answer.header.stages > data.ranks || data.severalStages || answer.header.tied.length > 0;
  }

  chip(i) {
    const {held} = this.all, number = held.number[i], hold = held.hold[i];
    const stage = this.severalStages ? `s${held.stage[i]} ` : '';
    const shade = ((number % 4) + 4) % 4;
    const [kind, text, title] = {
      [HOLD.weights]: ['weights', `${stage}w v${number}`, `version ${number} of the weights`],
      [HOLD.shard]:
          ['shard', `${stage}shard v${number}`, `its part of version ${number} of the weights`],
      [HOLD['copy of weights']]: [
        'weights', `${stage}all w v${number}`,
        `all weights of version ${number}, brought by a message`
      ],
      [HOLD.activations]: ['forward-1', stage + number, `activations of microbatch ${number}`],
      [HOLD.input]: [
        'input', `${stage}input ${number}`,
        `the stage's input of microbatch ${number}; a second forward makes the rest`
      ],
      [HOLD['gradient sum']]:
          ['gradients', `${stage}Σ v${number}`, `its sum of gradients for version ${number}, open`],
      [HOLD.sum]: [
        'gradients', `${stage}Σ v${number} of all`,
        `the sum of gradients for version ${number}, from others too`
      ],
      [HOLD['shard of a sum']]: [
        'gradients', `${stage}Σ v${number}, shard`,
        `its part of the sum of gradients for version ${number}`
      ],
      [HOLD.arrived]: ['wire', `${this.value(i)} came`, 'has come, and waits for its reader'],
      [HOLD.leaving]: ['wire', `${this.value(i)} leaves`, 'waits until it is sent or read'],
    }[hold];
    const plain = kind === 'shard' || kind === 'input' || kind === 'wire';
    return el(
        'span', {
          className: 'chip ' + (plain ? kind : ''),
          title: `${title}, of stage ${held.stage[i]}`,
          style: plain ? '' : `background:var(--${kind});color:var(--${kind}-ink)`
        },
        text);
  }

  value(i) {
    const {held} = this.all;
    return `${valueNames[held.what[i]]} ${held.number[i]}`;
  }

  /** What a rank does, or what it waits for. */
  doing(rank) {
    const {data, clock} = this, k = computationAt(data, rank, clock.now),
                 cells = data.computes[rank];
    if (k >= 0) {
      const i = cells[k], names = {
        [FORWARD]: data.again[i] ? 'forward again' : 'forward',
        [BACKWARD]: 'backward',
        [INPUT_PART]: 'input part',
        [WEIGHT_PART]: 'weight part'
      };
      return el(
          'span', {className: 'does'},
          data.op[i] === UPDATE ? `update to v${data.version[i]}` :
                                  `${names[data.op[i]]} ${data.micro[i]} on v${data.version[i]}`);
    }
    const next = firstWhere(cells.length, i => data.start[cells[i]] >= clock.now);
    return el(
        'span', {className: 'waits'},
        this.answer.stopped?.[rank] >= 0 && next >= cells.length ? 'waits for ever' :
            next >= cells.length                                 ? 'has finished' :
                                   `waits for ${this.awaited(cells[next])}`);
  }

  /** What the next computation waits for, in a few words. */
  awaited(i) {
    const {data} = this, cause = data.cause[i];
    if (cause < 0 || !isCompute(data.op[i])) return 'its turn';
    const kind = {
      [RECEIVE]: valueNames[data.what[cause]],
      [REDUCE]: 'the sum of all',
      [NORM]: 'the norm',
      [GATHER]: 'weights of all'
    }[data.op[cause]];
    if (data.op[cause] === SEND) return `a message of rank ${rankOf(data, cause)}`;
    if (data.op[cause] === RECEIVE)
      return `${kind} ${data.what[cause] > 2 ? '' : data.micro[cause]} of rank ${data.peer[cause]}`;
    return kind || 'its turn';
  }

  update() {
    if (!this.all) return;
    const {data, clock, host} = this;
    byId('holds-title').textContent = `What every rank holds at ${this.time.say(clock.now)}`;
    const rows = [];
    const first = this.page * ranksOnPage;
    for (let rank = first; rank < Math.min(first + ranksOnPage, data.ranks); ++rank) {
      const underWay =
          new Set(data.sends[rank]
                      .filter(i => data.start[i] <= clock.now && data.end[i] > clock.now)
                      .map(i => data.what[i] + ',' + data.micro[i]));  // chips of their own
      const {held} = this.all,
            chips = heldAt(this.all, rank, clock.now, data.seconds)
                        .filter(
                            i => held.hold[i] !== HOLD.leaving ||
                                !underWay.has(held.what[i] + ',' + held.number[i]));
      const shown = chips.slice(0, 40).map(i => this.chip(i));
      const {sharded, holders} = this.answer.header;
      if (sharded)
        shown.unshift(
            el('span', {
              className: 'chip',
              title: 'its part of the optimizer’s state',
              style: 'background:var(--optimizer);color:var(--optimizer-ink)'
            },
               `Adam 1/${holders?.[0] || data.ranks}`));
      if (chips.length > 40) shown.push(`and ${chips.length - 40} more`);
      rows.push(
          el('div', {className: 'rank'}, el('span', {}, `rank ${rank}`), this.doing(rank),
             el('span', {className: 'held'}, ...shown, ...this.onTheWay(rank))));
    }
    rows.push(
        el('p', {className: 'key'},
           'w: weights by version. Σ: sum of gradients, by the version that it makes. Numbers: ' +
               'activations by microbatch, kept for their backwards. ',
           'Underlined: values on their way.'));
    host.replaceChildren(...rows);
  }

  /** Messages of a rank that are under way. */
  onTheWay(rank) {
    const {data, clock} = this, chips = [];
    for (const i of data.sends[rank]) {
      if (data.start[i] > clock.now) break;
      if (data.end[i] > clock.now)
        chips.push(
            el('span', {className: 'chip wire', title: describe(data, i)},
               `${valueNames[data.what[i]]} ${
                   data.what[i] === 4 ? 'v' + data.version[i] :
                                        data.micro[i]} → rank ${data.peer[i]}`));
    }
    return chips;
  }
}
