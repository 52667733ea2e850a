// The player: what the page shows, and what happens when something is chosen.
'use strict';

const page = JSON.parse(byId('plans').textContent);  // {plans: [{request, answer}], schedules}
const clock = new Clock(1);
const state = {};  // of plan B, the present one: request, answer, data, holdings, time
let pinned = null, engine = null, line, lineA, turn = 0;

const holds = new Holds(byId('holds'), byId('holds-pages'), clock);
const memory = new Memory(byId('memory'), clock);
const traffic = new Traffic(byId('traffic'), clock);
const hasModule = typeof paragradPlayer === 'function';
const planText = new PlanText(
    byId('text'), clock, hasModule ? text => ask({plan: text, costs: state.request.costs}) : null);
const controls =
    new Controls(byId('controls'), page.schedules, hasModule ? request => ask(request) : null);
const quiz = new Quiz(byId('asked'), byId('quiz'), () => drawTimeline());

/** Options of the timeline of an answer. */
function optionsOf(answer, data, time) {
  const {error} = answer,
        idle = error || document.body.classList.contains('quizzing') ? null : answer.idle;
  const options = {
    axis: time.text,
    unit: time.unit,
    idle,
    pick: record => pick(record, data),
    words: record => wordsOf(data, record, time),
    stopped: answer.stopped?.map(cell => cell >= 0)
  };
  if (error && error.rank >= 0 && error.index >= 0) {
    const [row, column, length] = error.place || [];
    const label =
        row === undefined ? '?' : answer.text.split('\n')[row].slice(column, column + length);
    options.fault = {
      rank: error.rank,
      label,
      box:
          el('div', {className: 'fault', role: 'alert'}, el('b', {}, `Rule “${error.rule}”: `),
             error.message.split('\n')[0].replace(error.rule + ': ', ''))
    };
  }
  return options;
}

/** What a cell waited for, in words. */
function wordsOf(data, record, time) {
  const cause = data.cause[record];
  if (cause < 0) return 'It waits for nothing.';
  const begin = isCompute(data.op[record]) ? data.start[record] : null, end = data.end[cause];
  return `Before it: ${describe(data, cause)}` +
      (begin !== null && begin > end + 1e-9 ? '' : `, until ${time.text(end)}`);
}

/** Shows an answer as plan B. */
function show(request, answer) {
  answer.request = request;
  turn = 0;
  const drawn = answer.records && answer.header;
  const data = drawn ? timelineData(answer) : null, length = clock.seconds;
  Object.assign(state, {request, answer, data, time: timeUnit(request.costs, data?.seconds || 1)});
  state.holdings = drawn ? holdingsByRank(answer) : null;
  showHead(answer, pinned?.answer);
  showTable(answer, pinned?.answer, state.time);
  for (const id of ['what', 'holds-card', 'memory-card', 'traffic-card']) byId(id).hidden = !drawn;
  controls.ranks = data?.ranks;
  controls.show(request);
  if (drawn) {
    const room = answer.error ? 1.3 : 1, share = clock.now / length;  // for the cell that fails
    const seconds = Math.max(data.seconds * room, pinned?.data.seconds || 0);
    clock.end(seconds);
    clock.set(length === 1 ? seconds * 0.4 : seconds * share);
    if (length === 1) showCloser(data);
    drawTimeline();
    showLegend(data);
    holds.show(answer, data);
    memory.show(answer, data);
    traffic.show(answer, data);
  }
  planText.show(answer, data);
  quiz.show(state);
  byId('asked').hidden = !quiz.on;
  showQuestions();
  tellSummary();
}

/** On a narrow screen, shows a part of the plan whose cells are wide enough for their numbers. */
function showCloser(data) {
  const [first] = data.computes[0], wide = byId('what').clientWidth - 90;
  const seconds = first === undefined ? 0 : (data.end[first] - data.start[first]) * wide / 13;
  if (wide < 470 && seconds > 0 && seconds < data.seconds)
    clock.window(clock.now - seconds / 2, clock.now + seconds / 2);
}

function drawTimeline() {
  if (!state.data) return;
  const options = optionsOf(state.answer, state.data, state.time);
  if (line)
    line.show(state.data, options);
  else
    line = new Timeline(byId('timeline'), clock, state.data, options);
  byId('pinned').hidden = !pinned;
  if (!pinned) return;
  byId('pinned-title').textContent = titleOf(pinned.answer);
  byId('title-b').textContent = titleOf(state.answer);
  const optionsA = optionsOf(pinned.answer, pinned.data, pinned.time);
  optionsA.pick = record => lineA.path(record < 0 ? [] : chainOf(pinned.data, record));
  if (lineA)
    lineA.show(pinned.data, optionsA);
  else
    lineA = new Timeline(byId('timeline-a'), clock, pinned.data, optionsA);
}

function pick(record, data) {
  const chain = record < 0 ? [] : chainOf(data, record);
  line.path(chain);
  if (record < 0) return;
  const {time} = state,
        shown = chain.length > 12 ? [...chain.slice(0, 4), -1, ...chain.slice(-7)] : chain;
  tell(
      [`The ${describe(data, record)} ends at ${time.text(data.end[record])} ${
          time.unit}. Each of these waited for the one before it:`],
      shown.map(
          i => i < 0 ? `… ${chain.length - 11} more` :
                       `${describe(data, i)}, on rank ${rankOf(data, i)}, ${
                           time.text(data.start[i])} to ${time.text(data.end[i])}`));
}

/** Writes sentences below the timeline, and a list. */
function tell(sentences, list = [], more = null) {
  const box = byId('asked');
  if (quiz.on) return;
  box.hidden = !sentences.length;
  box.replaceChildren(
      ...sentences.map(text => el('p', {}, text)),
      ...(list.length ? [el('ol', {}, ...list.map(text => el('li', {}, text)))] : []),
      ...(more ? [el('button', {type: 'button', onclick: more}, 'another one')] : []));
}

function answerQuestion(question) {
  if (quiz.on) quiz.stop();
  const found = question(state, turn++);
  if (found.seconds !== undefined) clock.set(found.seconds);
  line.path(found.path || []);
  tell(found.sentences, [], found.more ? () => answerQuestion(question) : null);
}

function showQuestions() {
  const questions = questionsOf(state.answer);
  byId('asks').replaceChildren(
      ...(questions.length ? [el('span', {className: 'dim'}, 'See for yourself:')] : []),
      ...questions.map(
          ([label, question]) =>
              el('button', {
                type: 'button',
                onclick: () => {
                  turn = 0;
                  answerQuestion(question);
                  byId('what').scrollIntoView(
                      {block: 'nearest', behavior: calm.matches ? 'auto' : 'smooth'});
                }
              },
                 label)));
}

/** What the page shows, for screen readers. */
function tellSummary() {
  const {answer, data} = state, numbers = fourNumbers(answer);
  const text = titleOf(answer) + '. ' + (answer.idea || '') + ' ' +
      (numbers ?
           numbers.map(number => `${number.text(number.value)} ${number.name}`).join('; ') + '.' :
           answer.error.message) +
      (answer.idle && answer.idle.length <= 16 ?
           ' Bubble by rank: ' + answer.idle.map(percent).join(', ') + '.' :
           '');
  byId('summary').textContent = text;
  byId('timeline')
      .setAttribute('aria-label', data ? `Timeline of ${data.ranks} ranks. ${text}` : text);
}

/** Asks the module; the page's own plans are answered already. */
async function ask(request, keep = true) {
  const known = page.plans.find(each => JSON.stringify(each.request) === JSON.stringify(request));
  if (known)
    show(request, known.answer);
  else if (!hasModule)
    controls.said.textContent =
        'The link holds another plan, which this page, built without the player’s module, ' +
        'cannot show.';
  else {
    engine ||= await paragradPlayer();
    const answer = JSON.parse(engine.answer(JSON.stringify(request)));
    if (answer.error && !answer.header && request.schedule) {  // no such plan: the old one stays
      controls.said.className = 'error';
      controls.said.textContent = answer.error.message;
      return;
    }
    controls.said.textContent = '';
    show(request, answer);
  }
  if (keep) history.replaceState(null, '', '#' + await linkOf(request));
}

async function begin() {
  const started = performance.now();
  showTools();
  showMemoryChoice();
  showPresets();
  const first = page.plans[0], asked = location.hash ? await fromLink(location.hash) : null;
  show(first.request, first.answer);
  if (asked)
    await ask(asked, false);
  else if (page.plans[0].path && state.data) {  // the chain that ends last: the critical path
    const ends = state.data.end;
    line.path(chainOf(
        state.data,
        ends.indexOf(
            Math.max(...state.data.computes.map(cells => ends[cells[cells.length - 1]] || 0)))));
  }
  document.documentElement.dataset.ready = Math.round(performance.now() - started);
}
addEventListener('hashchange', async () => {
  const asked = await fromLink(location.hash);
  if (asked && JSON.stringify(asked) !== JSON.stringify(state.request)) ask(asked, false);
});
begin();
