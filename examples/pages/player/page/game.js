// "Break this pipeline": a game in which a reader makes a plan better by moving words of its text.
// Not here: how its rows get messages (rows.js), and what verifies them (the module).

/** The second update's computations read version 0, like those of the first. */
const readOlder = row => row.replace(/([FBIW]\d+)v1/g, '$1v0');
const changeRows = (text, change) => {
  const [header, ...rows] = text.split('\n');
  return [header, ...rows.map(change)].join('\n');
};
const swapWords = (row, i) => {
  const words = row.split(' ');
  return [...words.slice(0, i), words[i + 1], words[i], ...words.slice(i + 2)].join(' ');
};

// from: the request of the plan to begin with, and edit: what makes it worse. most: the goal, whose
// facts may be no greater.
const levels = [
  {
    task: 'Make it faster: swap two words.',
    from: {schedule: '1f1b', stages: 4, microbatches: 6, steps: 1},
    edit: text => changeRows(text, (row, rank) => rank === 1 ? swapWords(row, 2) : row),
    most: {bubble: 1 / 3, kept: 4},
    hint: 'Rank 1 can run three forwards before the first gradient comes back. Count those ' +
        'before its first backward.',
    done: 'This is 1F1B: rank r of D keeps D − r microbatches on their way, just enough to ' +
        'be busy until the first gradient is back.'
  },
  {
    task: 'GPipe runs all forwards, then all backwards. Keep fewer activations: let backwards ' +
        'begin earlier.',
    from: {schedule: 'gpipe', stages: 2, microbatches: 4, steps: 1},
    edit: text => text,
    most: {bubble: 0.2, kept: 3},
    hint: 'Begin with rank 1: its backwards 0, 1 and 2 need no forward 3, so move 1F3v0 behind ' +
        '1B2v0. Then rank 0 gets gradient 0 before its last forward: swap 0F3v0 and 0B0v0.',
    done: 'A backward frees what its forward kept, and the pipeline stays as full. Go on until ' +
        'each backward comes as soon as it can, and you have 1F1B.'
  },
  {
    task: 'No order of these words avoids the gap at the update. Read older weights: rank 1 does ' +
        'already.',
    from: {schedule: '1f1b', stages: 2, microbatches: 2, steps: 2},
    edit: text =>
        changeRows(text, (row, rank) => rank ? readOlder(row) : row).replace('\n', ' keep 2\n'),
    most: {bubble: 0.2, kept: 2},
    hint: 'On rank 0, microbatches 2 and 3 can read version 0, forwards and backwards alike. ' +
        'Then forward 2 needs no update before it: move it ahead of 0B1v0.',
    done: 'This is 2BW: the pipeline does not drain at the update. The price: two versions of ' +
        'the weights, and gradients that are one update late.'
  },
  {
    task: 'ZB-H1 has a bubble of 20% here. Beat it, with no more than its 4 activations. The ' +
        'second update reads version 0, so its forwards need not wait.',
    from: {schedule: 'zb-h1', stages: 4, microbatches: 4, steps: 2},
    edit: text => changeRows(text, readOlder).replace('\n', ' keep 2\n'),
    most: {bubble: 1 / 7, kept: 4},
    hint: 'On rank 0, move forward 4 ahead of the update, right behind 0W0v0, which frees ' +
        'activations: 17%. Then forward 5 behind 0W1v0, and on rank 1 forward 4 behind 1W0v0.',
    done: 'Backwards in two parts, in a pipeline that does not drain: a smaller bubble without ' +
        'more activations, for the price of older weights.'
  },
];

/** A plan in the chart. kept: activations, where a rank's share of the model counts as a stage. */
const dotOf = (name, facts) =>
    ({name, bubble: facts.bubble, kept: greatest(facts.peak_models) * facts.ranks});

/** Uses the browser's storage. A page may have none; then it forgets. */
function inStorage(act) {
  try {
    return act(localStorage);
  } catch (error) {
    return null;
  }
}

class Game {
  level = -1;  // none is played
  costs = {backward: [2]};
  solved = new Set([inStorage(all => JSON.parse(all.getItem('plangrad-levels'))) || []].flat());
  known = {};  // by level: plans of its size
  chart = new Scatter(byId('chart'));

  /** The request of a level's plan, whose text has no messages. */
  request(level, text) {
    const title = `Break this pipeline, level ${level + 1}`;
    this.text = text;
    return {plan: withMessages(text).text, title, game: level, costs: this.costs};
  }

  /** Asks for the plan that a level begins with. */
  async begin(level) {
    const {from, edit} = levels[level];
    const answer = await answerOf({...from, costs: this.costs}, ++asks);
    if (answer?.text) await ask(this.request(level, edit(withoutMessages(answer.text).trim())));
  }

  /** What the text's field shows of an answer. */
  shown(answer) {
    if (this.level < 0) return answer;
    const isTyped = withMessages(this.text ?? '').text === answer.text;
    return answerOfRows(answer, isTyped ? this.text : withoutMessages(answer.text));
  }

  show(request, answer) {
    this.level = Number.isInteger(request.game) && levels[request.game] ? request.game : -1;
    document.body.classList.toggle('game', this.level >= 0);
    if (this.level < 0) return;
    const {task, hint, most, done} = levels[this.level], {facts} = answer;
    const isSolved = this.isSolved(facts);
    if (isSolved) this.solved.add(this.level);
    inStorage(all => all.setItem('plangrad-levels', JSON.stringify([...this.solved])));
    byId('levels').replaceChildren(...levels.map((_, k) => {
      const text = `level ${k + 1}${this.solved.has(k) ? ', solved' : ''}`;
      const onclick = () => this.begin(k);
      return el('button', {type: 'button', 'aria-pressed': `${k === this.level}`, onclick}, text);
    }));
    byId('task').textContent = task;
    byId('goal').textContent = `Goal: a bubble of at most ${
        percent(most.bubble)}, and the activations of at most ${most.kept} forwards on a rank.`;
    byId('level-hint').textContent = hint;
    const score = byId('score');
    score.className = !facts ? 'error' : isSolved ? 'solved' : '';
    score.textContent = facts ?
        `Bubble ${percent(facts.bubble)}, activations of ${
            plural(digits(dotOf('', facts).kept), 'forward')}, ` +
            `staleness ${facts.staleness}. ${
                isSolved                ? 'Solved. ' + done :
                    this.hasSize(facts) ? 'Not there yet.' :
                                          'Of another size: leave the header as it was.'}` :
        `This ${answer.records ? 'breaks a rule: see the red cell, and' : 'can’t be read: see'} ` +
            'the sentence below the text.';
    this.showChart();
    this.askKnown(this.level);
  }

  showChart() {
    const {facts} = state.answer, known = this.known[this.level] || [];
    this.chart.show(facts ? [...known, {...dotOf('your plan', facts), isOwn: true}] : known);
  }

  hasSize({ranks, stages, steps, per_step}, {from} = levels[this.level]) {
    return ranks === from.stages && stages === from.stages && steps === from.steps &&
        per_step === from.microbatches;
  }

  /** Whether a plan has a level's size, and reaches its goal. */
  isSolved(facts, {most} = levels[this.level]) {
    return !!facts && this.hasSize(facts) && facts.bubble < most.bubble + 5e-4 &&
        dotOf('', facts).kept < most.kept + 1e-9;
  }

  /** Asks once for the schedules of a level's size, one after the other. */
  async askKnown(level) {
    if (this.known[level]) return;
    const found = this.known[level] = [], {from} = levels[level];
    for (const {name, chunks, cyclic, overlaps} of page.schedules) {
      if (cyclic || ['data', 'recycle'].includes(name)) continue;  // of other sizes
      if (overlaps && from.steps === 1) continue;  // what they gain begins with the second update
      const stages = from.stages * Math.max(1, chunks);
      let answer;
      do {  // until no other request comes first
        answer = await answerOf({...from, schedule: name, stages, costs: this.costs}, asks);
      } while (!answer);
      const {facts} = answer;
      if (facts) found.push(dotOf(name, facts));
    }
    if (this.level >= 0) this.showChart();
  }
}
