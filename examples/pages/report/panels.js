// The head of a run's page: what ran, its numbers against the simulation, and where a step went.
// "Simulated" is one number everywhere: the recorded plan with the measured costs; where ranks
// share cores, with the CPU time of each computation, as if each rank had a core.

const flagsOf = (summary) => (summary.config && summary.config.flags) || {};
/** The version of a thing that is called simulated; `versions`: by "simulated", "own_cores". */
const simulatedOf = (versions) => versions?.own_cores ?? versions?.simulated;
const lastWindow = () => data.windows[data.windows.length - 1];

function copyButton(text) {
  const onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'copied';
    } catch {
      getSelection().selectAllChildren(button.previousSibling);
      button.textContent = 'selected: Ctrl C';
    }
    setTimeout(() => button.textContent = 'copy', 2000);
  };
  const button = el('button', {class: 'copy', onclick}, 'copy');
  return button;
}
const command = (text) => el('div', {class: 'command'}, el('code', {}, text), copyButton(text));

/** A run's command; of one that is resumed, the first and the last. */
function commands({begun_by: first, command: last}) {
  if (!/ --resume[ =]/.test(last)) return last && command(last);
  const titled = (title, text) => [el('span', {class: 'about'}, title), command(text)];
  return [first && first !== last && titled('begun by', first), titled('continued by', last)];
}

const madeBy = (words, version) =>
    el('footer', {class: 'about'}, 'made by ', el('code', {}, words || 'plangrad'),
       version && `, plangrad ${version}`);

function modelWords(summary) {
  const {model = {}} = summary.config || {}, words = [];
  for (const [key, word] of [
           ['layers', 'transformer blocks'], ['blocks', 'blocks a group'], ['width', 'width'],
           ['heads', 'heads'], ['context', 'context'], ['vocabulary', 'vocabulary'],
           ['classes', 'classes']])
    if (typeof model[key] === 'number')
      words.push(key === 'layers' ? plural(model[key], 'block') : `${word} ${count(model[key])}`);
  if (!words.length && flagsOf(summary)['--width'])
    words.push(`width ${flagsOf(summary)['--width']}`);
  if (summary.parameters)
    words.push(`${
        withUnit(summary.parameters, ['', 'thousand', 'million', 'billion'], 1000)
            .trim()} parameters`);
  if (model.tied === false) words.push('untied');
  if (model.dropout > 0) words.push(`dropout ${model.dropout}`);
  return words.join(', ');
}
function layoutWords(summary) {
  const flags = flagsOf(summary), words = [];
  words.push(flags['--plan'] ? 'a plan of the user' : flags['--schedule'] || '');
  words.push(
      plural(summary.ranks || 1, 'rank') +
      (flags['--data-parallel'] > 1 && flags['--stages'] > 1 ?
           ` (${plural(flags['--data-parallel'], 'replica')} of ${
               plural(flags['--stages'], 'stage')})` :
           ''));
  if (flags['--microbatches']) words.push(plural(flags['--microbatches'], 'microbatch'));
  if (flags['--setting']) words.push(`setting ${flags['--setting']}`);
  const zero = flags['--zero'];
  const sharded = ['', 'optimizer state is', 'optimizer state and gradients are', 'all state is'];
  if (zero) words.push(`ZeRO ${zero}: ${sharded[zero]} partitioned`);
  if (flags['--recompute'] === true) words.push('activations are computed again');
  return words.filter(Boolean).join(', ');
}
function extraWords(summary) {
  const flags = flagsOf(summary), words = [];
  for (const [key, text] of [['--codec', 'gradients'], ['--codec-channel', 'activations']])
    if (flags[key] && flags[key] !== 'none') words.push(`${flags[key]} on the wire (${text})`);
  if (flags['--prune'] > 0)
    words.push(`pruned to ${percent(1 - flags['--prune'])} (${flags['--prune-method'] || ''}${
        flags['--samo'] ? ', SAMO' : ''})`);
  return words.join(', ');
}
function trainingWords(summary) {
  const flags = flagsOf(summary), words = [], {unit} = data;
  const ofUpdate = summary[unit + '_per_update'];
  if (flags['--batch']) words.push(`batch ${flags['--batch']}`);
  if (ofUpdate) words.push(`${count(ofUpdate)} ${unit} an update`);
  if (flags['--learning-rate']) words.push(`learning rate ${flags['--learning-rate']}`);
  if (flags['--seed'] !== undefined) words.push(`seed ${flags['--seed']}`);
  if (flags['--dtype']) words.push(flags['--dtype']);
  return words.join(', ');
}
function machineWords(summary) {
  const {machine} = summary;
  if (!machine) return '';
  const where = machine.hosts > 1 ? `${machine.hosts} hosts, first ${machine.host}` : machine.host;
  return [
    machine.device && machine.device !== 'cpu' ? `device ${machine.device}` : '', machine.processor,
    `${plural(machine.cores, 'core')} for ${plural(summary.ranks, 'rank')}`, where
  ].filter(Boolean)
      .join(', ');
}
function facts(list) {
  return el(
      'dl', {class: 'facts'},
      list.filter(([, text]) => text)
          .map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))));
}

/** A run's updates since its begin or last resume: its summary's time and bytes are theirs. */
const sessionSteps = (summary) => summary.session_steps ?? summary.steps;
const isResumed = (summary) => sessionSteps(summary) < summary.steps;

function head() {
  const {summary} = data, file = String(flagsOf(summary)['--data'] || '');
  const state = summary.state || (summary.complete ? 'finished' : 'stopped');
  const steps = summary.steps_asked && summary.steps < summary.steps_asked ?
      `${count(summary.steps)} of ${plural(summary.steps_asked, 'update')}` :
      plural(summary.steps, 'update');
  const since = isResumed(summary) ? `; the ${count(sessionSteps(summary))} since the resume` : '';
  return el(
      'header', {}, el('h1', {}, data.title, ' ', el('span', {class: 'state ' + state}, state)),
      liveNote(state), commands(summary), facts([
        ['Model', modelWords(summary)], ['Data', file.split('/').pop()],
        ['Layout', layoutWords(summary)], ['Compressed', extraWords(summary)],
        ['Training', trainingWords(summary)],
        ['Length', `${steps}${since} in ${seconds(summary.seconds)}`],
        ['Machine', machineWords(summary)], ['When', summary.date], ...(data.pretended || []),
        ['Pipeline drained', data.drains]
      ]));
}

/** While the run goes on, the page loads itself anew, unless the reader says no. */
function liveNote(state) {
  if (state !== 'running') return null;
  const age = () =>
      (Date.now() - Date.parse(data.written.replace(' UTC', 'Z').replace(' ', 'T'))) / 1000;
  const text = el('span', {}), box = el('input', {type: 'checkbox'});
  box.checked = chosen('reload', 'yes') === 'yes';
  box.addEventListener('change', () => choose('reload', box.checked ? 'yes' : 'no'));
  const tell = () => {
    const old = Math.max(0, Math.round(age()));
    text.textContent = `As of ${old < 120 ? `${old} s` : seconds(old)} ago.` +
        (old > 180 ?
             ' A page is written every 30 s: this run has ended without a word, or a long step ' +
                 'keeps it busy.' :
             '');
    if (performance.now() > 4000 && old > 32 && old < 600 && box.checked && !document.hidden)
      location.reload();
  };
  tell();
  setInterval(tell, 5000);
  return el('p', {class: 'live'}, text, ' ', el('label', {}, box, ' load anew when there is more'));
}

// ---- the four numbers ----

function numbers() {
  const {summary, unit} = data, shown = lastWindow();
  const total = (rank) => rank.total || 0, peaks = (summary.peak_bytes || []).map(total);
  const fullest = peaks.indexOf(Math.max(...peaks));
  const rate = summary[unit + '_per_second'],
        update = summary.update_seconds.steady_state ?? simulatedOf(summary.update_seconds),
        simulated = summary[unit + '_per_update'] / update, shared = summary.shared_cores;
  const validation = summary.validation_loss ?? data.metrics.validation.at(-1)?.validation_loss;
  const accuracy =
      summary.validation_accuracy ?? data.metrics.validation.at(-1)?.validation_accuracy;
  const pruned = (summary.peak_bytes_pruned || []).map(total);
  const validating = (summary.peak_bytes_validation || []).map(total);
  return [
    shared && data.about_times &&
        el('p', {class: 'shared'},
           el('b', {},
              `${shared.ranks} ranks on ${
                  plural(shared.cores, 'core')}: they can be busy for at most ${
                  percent(shared.cores / shared.ranks)} of the time. `),
           'In the rest of a computation’s measured time its rank has no core. Simulated times ' +
               'are those with a core for each rank.'),
    el('dl', {class: 'figures'},
       figure(
           'validation loss',
           validation === undefined ? 'not yet' : `${validation.toFixed(4)} nats`,
           `training ${summary.loss.toFixed(4)} in the last update`,
           accuracy !== undefined && `${percent(accuracy)} right`),
       figure(
           `${unit} per second`, digits(rate),
           `${count(simulated)} if every update took the ${seconds(update)} that are simulated` +
               (update === summary.update_seconds.steady_state ? ' for a full pipeline' : '')),
       figure(
           'peak memory of the fullest rank in training',
           peaks.length ? bytes(peaks[fullest]) : 'not yet',
           peaks.length > 1 && `rank ${fullest}; the least full has ${bytes(Math.min(...peaks))}`,
           pruned.length ? `${bytes(Math.max(...pruned))} since the pruning` : '',
           validating.length && Math.max(...validating) > peaks[fullest] ?
               `${bytes(Math.max(...validating))} in validations` :
               '',
           memoryAgainstPlan(shown)),
       idleFigure(summary.bubble, shown)),
  ];
}
/** The pair that can be compared: the recorded updates were also simulated as they ran. */
function idleFigure(bubble, shown) {
  const full = bubble.steady_state;
  return figure(
      `ranks idle in ${updatesOf(shown)}` +
          (full >= 0 ? ', which fill and drain the pipeline' : ''),
      `${percent(simulatedOf(bubble))} simulated, ${percent(bubble.measured)} measured`,
      `${percent(bubble.all_steps)} in all updates, measured`,
      full >= 0 && `${percent(full)} simulated for a pipeline that stays full`,
      bubble.without_core > 0.005 &&
          `for another ${
              percent(bubble.without_core)} of the time a rank that computes has no core`);
}
/** What the plan needs on its fullest rank, beside what was measured. */
const memoryAgainstPlan = (shown) =>
    shown.levels?.[shown.level] && `${bytes(Math.max(...shown.levels[shown.level].peaks))} planned`;

// ---- where a step went ----

const stepColors = [
  'forward-1', 'backward-1', 'update', 'no-core', 'waits', 'communication', 'series-2', 'bubble'
];
const aboutOther = ' “Other” is idle time in which nothing that a rank waited for was under way.';
const stepParts = (shown) => colored(shown.parts, stepColors);

/** Ranks whose bars are one: each alone, or if there are many, those that compute the same. */
function rankGroups(shown) {
  const all = shown.bars.measured.map((_, rank) => [rank]);
  return all.length <= 32 ? all : shown.cells.rows.map((row) => row.same || [row.rank]);
}
const groupName = (ranks) => `rank ${ranks[0]}` + (ranks.length > 1 ? ` +${ranks.length - 1}` : '');
/** The width of the names of ranks. */
const barLabel = (shown, width) => rankGroups(shown).length < shown.bars.measured.length ? 100 :
    width > 500                                                                          ? 72 :
                                                                                           56;
/** Explains the name of the first group of several ranks. */
function groupNote(shown, what) {
  const group = rankGroups(shown).find((ranks) => ranks.length > 1), more = group?.length - 1;
  return group ? ` “+${more}” stands for ${plural(more, 'more rank')} that ${
                     more > 1 ? 'compute' : 'computes'} the same; bars are ${what}.` :
                 '';
}
/** The mean of the lists of a group's ranks, part by part. */
const meanOf = (ranks, lists) =>
    lists[ranks[0]].map((_, part) => sum(ranks.map((rank) => lists[rank][part])) / ranks.length);

/** The share of a rank's time in none of its computations, which are the first four parts. */
const idleShare = (parts) => 1 - sum(parts.slice(0, 4)) / sum(parts);

function whereAStepWent() {
  const shown = shownWindow(), updates = shown.last - shown.first + 1;
  const both = chosen('bars', 'both'), lists = {...shown.bars, simulated: simulatedOf(shown.bars)};
  const rows = [];
  for (const ranks of rankGroups(shown)) {
    const bars = (version) => meanOf(ranks, lists[version]), name = groupName(ranks);
    const values = bars('measured');
    const line = (version, thin) => ({
      full: `${name}, ${version}`,
      thin,
      values: bars(version).map((value) => value / updates),
      note: thin ? '' : `${percent(idleShare(values))} idle`
    });
    if (both !== 'simulated') rows.push({...line('measured', false), name});
    if (both !== 'measured')
      rows.push({
        ...line('simulated', both === 'both'),
        name: both === 'both' ? '' : name,
        note: both === 'both' ? 'simulated' : `${percent(idleShare(bars('simulated')))} idle`
      });
  }
  const note = `Shares of the mean of ${updatesOf(shown)}: ${
      seconds(shown.seconds.measured / updates)} an update measured, ${
      seconds(simulatedOf(shown.seconds) / updates)} simulated.`;
  return panel(
      'Where a step went', note + aboutOther + groupNote(shown, 'their means'),
      drawn(
          (width) =>
              [el('div', {class: 'tools'},
                  switcher(
                      'bars', 'Bars',
                      [
                        ['both', 'measured and simulated'], ['measured', 'measured'],
                        ['simulated', 'simulated']
                      ],
                      'both', rebuild)),
               stackedBars(width, rows, stepParts(shown), {
                 text: seconds,
                 fitted: true,
                 label: barLabel(shown, width),
                 inside: (value, share) => percent(share)
               }),
               legend(stepParts(shown).filter(
                   (_, i) => Object.values(shown.bars)
                                 .some((ranks) => ranks.some((rank) => rank[i] > 0))))]),
      el('p', {class: 'about'},
         `The chain of instructions that sets the length of ${
             plural(updates, 'update')}: measured ${shown.path.measured}; simulated ${
             simulatedOf(shown.path)}.`));
}
