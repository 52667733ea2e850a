// Buttons: play, zoom, pin, link; the units of memory; the presets; the page's origin.

function showTools() {
  showPictureButtons();
  byId('play').onclick = () => clock.playing ? clock.pause() : clock.play();
  byId('in').onclick = () => clock.zoom(1.6);
  byId('out').onclick = () => clock.zoom(1 / 1.6);
  byId('all').onclick = () => clock.window(0, clock.seconds);
  byId('pin').onclick = () => {
    pinned = {...state};
    show(state.request, state.answer);
  };
  byId('unpin').onclick = () => {
    pinned = null;
    show(state.request, state.answer);
  };
  byId('link').hidden = !hasAddress;
  byId('link').onclick = async () => {
    await setLink(state.request);
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    byId('link').textContent = location.protocol === 'file:' ?
        'copied: it opens on this machine only' :
        'link is in the address';
    setTimeout(() => byId('link').textContent = 'copy link', 2500);
  };
  clock.listen(() => {
    byId('play').textContent = clock.playing ? 'pause' : 'play';
    if (state.time) byId('now').textContent = `at ${state.time.say(clock.now)}`;
  });
}

/** Shows the command and the version that made the page. */
function showMade() {
  if (!page.made) return;
  const {command, version} = page.made;
  byId('made').replaceChildren(
      'this page was made by ', el('code', {}, command), `, plangrad ${version}`);
}

function showMemoryChoice() {
  const option = (value, text) => el('option', {value}, text);
  const unit =
      el('select', {'aria-label': 'what memory is counted in'},
         ...[...memoryUnits, ...page.models.map(({name}) => name)].map(each => option(each, each)));
  const sequences =
      el('select', {'aria-label': 'sequences of a microbatch'},
         ...page.sequences.map(n => option(n, `${n} sequence${n > 1 ? 's' : ''}`)));
  const device = el(
      'select', {'aria-label': 'memory of a device'},
      ...page.machines.map(each => option(each.name, `${each.name}: ${bytesText(each.memory)}`)));
  const redo = () => {
    memory.unit = unit.value;
    memory.sequences = sequences.selectedIndex;
    memory.device = page.machines[device.selectedIndex].memory;
    sequences.hidden = device.hidden = !isInBytes(memory.unit);
    byId('memory-note').textContent = isInBytes(memory.unit) ?
        'In bf16: weights 2 bytes a parameter, sums of gradients 4, Adam 12 (purple); blocks ' +
            'divided evenly, the table of words and the logits at the ends. Red: the device, if ' +
            'it is near.' :
        memory.unit === 'versions' ?
        'Versions of all stages of a rank; a shard counts as its part.' :
        'Of a stage and a microbatch each, from the forward to the end of the backward.';
    if (state.data) memory.show(state.answer, state.data);
  };
  sequences.value = 8;
  unit.onchange = sequences.onchange = device.onchange = redo;
  byId('memory-choice').replaceChildren(unit, sequences, device);
  redo();
}

function showPresets() {
  const own = page.plans.length > 1 ?
      page.plans.map(({request, answer}) => ({name: answer.title, request, ask: -1})) :
      [];
  const open = async preset => {
    asked = null;
    if (!await ask(preset.request)) return;
    const questions = questionsOf(state.answer);
    if (preset.ask >= 0 || questions.length > 3) answerQuestion(questions.at(preset.ask)[1]);
  };
  const button = (text, onclick, className) =>
      el('button', {type: 'button', className, onclick}, text);
  byId('presets').replaceChildren(
      button('Break this pipeline', () => game.begin(0), 'main'),
      el('span', {className: 'dim'}, 'Open a plan:'),
      ...[...own, ...presets].map(each => button(each.name, () => open(each), '')));
}
