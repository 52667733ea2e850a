// Buttons: play, zoom, pin, link; the units of memory; the presets.
'use strict';

function showTools() {
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
  byId('link').onclick = async () => {
    history.replaceState(null, '', '#' + await linkOf(state.request));
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    byId('link').textContent = 'link is in the address';
    setTimeout(() => byId('link').textContent = 'copy link', 1800);
  };
  clock.listen(() => {
    byId('play').textContent = clock.playing ? 'pause' : 'play';
    if (state.time) byId('now').textContent = `at ${state.time.text(clock.now)} ${state.time.unit}`;
  });
}

function showMemoryChoice() {
  const buttons = Object.entries(memoryUnits)
                      .map(
                          ([unit, name]) =>
                              el('button', {
                                type: 'button',
                                'aria-pressed': '' + (unit === memory.unit),
                                onclick: event => {
                                  memory.unit = unit;
                                  for (const each of buttons)
                                    each.setAttribute('aria-pressed', each === event.target);
                                  redo();
                                }
                              },
                                 name));
  const sequences =
      el('select', {'aria-label': 'sequences of a microbatch'},
         ...[1, 2, 4, 8, 16, 32].map(
             n => el('option', {value: n, selected: n === 8}, n + ' sequences')));
  const device =
      el('select', {'aria-label': 'memory of a device'},
         ...[16, 24, 40, 80, 141].map(
             n => el('option', {value: n, selected: n === 80}, `device of ${n} GB`)));
  const redo = () => {
    const inBytes = isInBytes(memory.unit);
    sequences.hidden = device.hidden = !inBytes;
    memory.sequences = +sequences.value;
    memory.device = device.value * 1e9;
    byId('memory-note').textContent = inBytes ?
        'Weights and gradients 2 bytes a parameter, Adam 12 (purple); stages of equal size; ' +
            'activations by Korthikanti et al. 2022. Red: the device, if it is near.' :
        memory.unit === 'versions' ?
        'Versions of all stages of a rank; a shard counts as its part.' :
        'Of a stage and a microbatch each, from the forward to the end of the backward.';
    if (memory.data) {
      memory.count();
      memory.paint();
    }
  };
  sequences.onchange = device.onchange = redo;
  byId('memory-choice').replaceChildren(...buttons, sequences, device);
  redo();
}

function showPresets() {
  const own = page.plans.length > 1 ?
      page.plans.map(({request, answer}) => ({name: answer.title, request, ask: -1})) :
      [];
  const all = [...own, ...(hasModule ? presets : [])];
  if (!all.length) return;
  byId('presets').replaceChildren(
      el('span', {className: 'dim'}, 'Open a plan:'),
      ...all.map(
          preset =>
              el('button', {
                type: 'button',
                onclick: async () => {
                  asked = null;
                  if (!await ask(preset.request)) return;
                  if (preset.ask >= 0)
                    answerQuestion(questionsOf(state.answer)[preset.ask][1]);
                  else if (questionsOf(state.answer).length > 3)
                    answerQuestion(questionsOf(state.answer).pop()[1]);
                }
              },
                 preset.name)));
}
