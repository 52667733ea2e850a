// The player: what the page shows, and what happens when something is chosen.

// {plans: [{request, answer}], schedules, fields, operations}
const page = JSON.parse(byId('plans').textContent);
const clock = new Clock(1);
const state = {};  // of plan B, the present one: request, answer, data, holdings, time
let pinned = null, line, lineA, turn = 0;
let asked = null;  // the question whose answer is shown, and is given anew for another plan

const holds = new Holds(byId('holds'), byId('holds-pages'), clock);
const memory = new Memory(byId('memory'), clock, () => askMemory());
const traffic = new Traffic(byId('traffic'), clock);
const game = new Game();
const planText = new PlanText(
    byId('text'), clock,
    text =>
        ask(game.level < 0 ? {plan: text, costs: state.request.costs} :
                             game.request(game.level, text)));
const controls = new Controls(byId('controls'), page, request => ask(request));
const quiz = new Quiz(byId('asked'), byId('quiz'), () => {
  drawTimeline();
  tellSummary();
});

/** Options of the timeline of an answer. */
function optionsOf(answer, data, time) {
  const {error} = answer,
        idle = error || document.body.classList.contains('quizzing') ? null : answer.idle;
  const options = {
    axis: time.text,
    unit: time.unit,
    idle,
    pick: (record, rank) => pick(record, data, rank),
    words: record => wordsOf(data, record, time),
    stopped: answer.stopped?.map(cell => cell >= 0)
  };
  if (error && error.rank >= 0) {
    const [row, column, length] = error.index >= 0 && error.place || [];
    const label = row === undefined ? 'end of row' :
                                      answer.text.split('\n')[row].slice(column, column + length);
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
  document.querySelector('main').className = '';
  answer.request = request;
  if (request.game >= 0) sayOfInput(answer);
  suggestWord(answer, request.game >= 0);
  const drawn = answer.records && answer.header;
  const data = drawn ? timelineData(answer) : null, length = clock.seconds;
  Object.assign(state, {request, answer, data, time: timeUnit(request.costs, data?.seconds || 1)});
  state.holdings = drawn ? holdingsByRank(answer) : null;
  useDrawn(answer, data);
  showHead(answer, pinned?.answer);
  showTable(answer, pinned?.answer, state.time);
  for (const id of ['picture', 'questions', 'holds-card', 'memory-card', 'traffic-card'])
    byId(id).hidden = !drawn;
  controls.ranks = data?.ranks;
  controls.show(request);
  game.show(request, answer);
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
  byId('unit').hidden = state.time.unit !== 'forwards';
  planText.show(game.shown(answer), data);
  quiz.show(state);
  byId('asked').hidden = !quiz.on;
  showQuestions();
  if (asked && !quiz.on && questionsOf(answer).some(each => each[1] === asked))
    answerQuestion(asked, Math.max(turn - 1, 0));
  else
    asked = null;
  tellSummary();
}

/** On a narrow screen, shows a part of the plan whose cells are wide enough for their numbers. */
function showCloser(data) {
  const [first] = data.computes[0], wide = byId('picture').clientWidth - 90;
  const seconds = first === undefined ? 0 : (data.end[first] - data.start[first]) * wide / 13;
  if (wide < 470 && seconds > 0 && seconds < data.seconds)
    clock.window(clock.now - seconds / 2, clock.now + seconds / 2);
}

function drawTimeline() {
  if (!state.data) return;
  const drawn = (old, host, {answer, data, time}, more) => {
    const options = {...optionsOf(answer, data, time), ...more};
    if (!old) return new Timeline(byId(host), clock, data, options);
    old.show(data, options);
    return old;
  };
  line = drawn(line, 'timeline', state);
  byId('pinned').hidden = !pinned;
  if (!pinned) return;
  byId('pinned-title').textContent = titleOf(pinned.answer);
  byId('title-b').textContent = titleOf(state.answer);
  const pick = record => lineA.path(record < 0 ? [] : chainOf(pinned.data, record));
  lineA = drawn(lineA, 'timeline-a', pinned, {pick});
}

function pick(record, data, rank = -1) {
  const chain = record < 0 ? [] : chainOf(data, record);
  line.path(chain);
  if (record >= 0 || rank >= 0) asked = null;
  if (record < 0) {
    const now = ({from, to}) => from <= clock.now && clock.now <= to;
    const gap = rank < 0 ? undefined : gapsOf(data, rank).find(now);
    if (!gap) return;
    const {path, sentences} = whyGap(state, gap);
    line.path(path);
    return tell(sentences);
  }
  const {time} = state, count = chain.length, item = k => {
    const i = chain[k], from = time.text(data.start[i]), to = time.text(data.end[i]);
    return el(
        'li', {value: k + 1}, `${describe(data, i)}, on rank ${rankOf(data, i)}, ${from} to ${to}`);
  };
  const items = count <= 9 ? chain.map((_, k) => item(k)) : [
    ...[0, 1, 2].map(item), el('li', {className: 'more'}, `… ${count - 7} more`),
    ...[4, 3, 2, 1].map(k => item(count - k))
  ];
  tell(
      [`The ${describe(data, record)} ends at ${
          time.say(data.end[record])}. Each of these waited for the one before it:`],
      items);
}

/** Writes sentences below the timeline, and a list. */
function tell(sentences, list = [], more = null) {
  const box = byId('asked');
  if (quiz.on) return;
  box.hidden = !sentences.length;
  box.replaceChildren(
      ...sentences.map(text => el('p', {}, text)), ...(list.length ? [el('ol', {}, ...list)] : []),
      ...(more ? [el('button', {type: 'button', onclick: more}, 'another one')] : []));
}

function answerQuestion(question, which = 0) {
  if (quiz.on) quiz.stop();
  asked = question;
  turn = which + 1;
  const found = question(state, which);
  if (found.seconds !== undefined) clock.set(found.seconds);
  line.path(found.path || []);
  tell(found.sentences, [], found.more ? () => answerQuestion(question, turn) : null);
}

function showQuestions() {
  const questions = questionsOf(state.answer), open = question => {
    answerQuestion(question);
    const behavior = calm.matches ? 'auto' : 'smooth';
    byId('timeline').scrollIntoView({block: 'nearest', behavior});
  };
  byId('asks').replaceChildren(
      ...(questions.length ? [el('span', {className: 'dim'}, 'Ask this plan:')] : []),
      ...questions.map(
          ([label, question]) =>
              el('button', {type: 'button', onclick: () => open(question)}, label)));
}

/** What the page shows, for screen readers. */
function tellSummary() {
  const {answer, data} = state, isQuiz = document.body.classList.contains('quizzing');
  const numbers = fourNumbers(answer)?.filter(number => !(isQuiz && number.secret));
  const text = titleOf(answer) + '. ' + (answer.idea || '') + ' ' +
      (numbers ?
           numbers.map(number => `${number.text(number.value)} ${number.name}`).join('; ') + '.' :
           answer.error.message) +
      (!isQuiz && answer.idle && answer.idle.length <= 16 ?
           ' Bubble by rank: ' + answer.idle.map(percent).join(', ') + '.' :
           '');
  byId('summary').textContent = text;
  const label = data ? `Timeline of ${plural(data.ranks, 'rank')}. ${text}` : text;
  byId('timeline').setAttribute('aria-label', label);
}

// A worker answers, so that the page goes on meanwhile. One that takes long gives way to the next
// request.
const patience = 1000, silence = 400;  // ms that a request may take; before the page says so
let worker = null, asks = 0, answered = Promise.resolve(), busy = null;
function startWorker() {
  const code = byId('module').textContent + `
    let player = null;
    onmessage = ({data}) => (player ||= plangradPlayer())
        .then(it => postMessage(it.answer(data)))
        .catch(error => setTimeout(() => { throw error; }));`;
  return new Worker(URL.createObjectURL(new Blob([code], {type: 'text/javascript'})));
}

/** The module's answer; null if a later request has come before this one's turn. */
function answerOf(request, number) {
  return answered = answered.then(
             () => number < asks ? null : new Promise(done => {
               let said = false;
               const note = setTimeout(() => {
                 said = true;
                 sayOfControls('Computing … another choice ends this.');
               }, silence);
               const end = answer => {
                 clearTimeout(note);
                 if (said) sayOfControls('');
                 busy = null;
                 done(answer);
               };
               busy = {since: performance.now(), end};
               worker ||= startWorker();
               worker.onmessage = ({data}) => end(JSON.parse(data));
               worker.onerror = ({message}) =>
                   end({facts: null, error: {rule: 'request', rank: -1, index: -1, message}});
               const models = page.models.filter(({name}) => name === memory.unit);
               worker.postMessage(JSON.stringify({...request, game: undefined, models}));
             }));
}

/** Ends a request that has taken long: another one waits for the worker. */
function endLong() {
  if (!busy || performance.now() - busy.since < patience) return;
  worker.terminate();
  worker = null;
  busy.end(null);
}

function sayOfControls(text, isError = false) {
  controls.said.className = 'said ' + (isError ? 'error' : 'notice');
  controls.said.textContent = text;
}

/** Asks the module; the page's own plans are answered already. Whether the plan is shown. */
async function ask(request, keep = true) {
  const number = ++asks;
  endLong();
  const known = page.plans.find(each => JSON.stringify(each.request) === JSON.stringify(request));
  if (known)
    show(request, known.answer);
  else {
    const answer = await answerOf(request, number);
    if (number < asks) return false;
    if (answer.error && !answer.header && request.schedule) {  // no such plan: the old one stays
      sayOfControls(answer.error.message, true);
      return false;
    }
    sayOfControls('');
    show(request, answer);
  }
  if (keep) await setLink(request);
  return true;
}

/** Asks the module for the memory of the present plan in the chosen unit. */
async function askMemory() {
  const {request, answer, data} = state, found = await answerOf(request, asks);
  if (!found || answer !== state.answer) return;
  sayOfControls('');
  Object.assign(answer.memory, found.memory);
  memory.show(answer, data);
}

async function begin() {
  const started = performance.now();
  showTools();
  showMemoryChoice();
  showPresets();
  showMade();
  const first = page.plans[0], asked = location.hash ? await fromLink(location.hash) : null;
  const isGame = location.hash === '#break' || (page.game && !location.hash);
  if (isGame && !asked) byId('title').textContent = 'Break this pipeline';
  if (asked)
    await ask(asked, false);
  else if (isGame)
    await game.begin(0);
  const isOwn = !state.answer;  // the first plan that is shown is the one that was asked for
  if (isOwn) show(first.request, first.answer);
  if (isOwn && !asked && !isGame && location.hash.length > 1)
    sayOfControls(
        'The address holds no plan that can be read: a part of the link is missing or changed. ' +
            'This is the plan that the page was written with.',
        true);
  else if (isOwn && first.path && state.data) {  // the chain that ends last: the critical path
    const {end, computes} = state.data, last = cells => end[cells[cells.length - 1]] || 0;
    line.path(chainOf(state.data, end.indexOf(Math.max(...computes.map(last)))));
  }
  document.documentElement.dataset.ready = Math.round(performance.now() - started);
}
addEventListener('hashchange', async () => {
  const asked = await fromLink(location.hash);
  if (asked && JSON.stringify(asked) !== JSON.stringify(state.request)) ask(asked, false);
});
begin();
