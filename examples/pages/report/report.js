// Puts the page together: a run's panels in their order, or a comparison.

/** The recorded updates that the reader looks at: the last ones at first. */
function shownWindow() {
  const place = Math.min(data.windows.length - 1, +chosen('window', data.windows.length - 1));
  return data.windows[place];
}
function windowSwitch() {
  if (data.windows.length < 2) return null;
  return el(
      'div', {class: 'tools windows'}, 'Recorded updates: ',
      switcher(
          'window', 'Recorded updates',
          data.windows.map(
              (each, i) => [String(i), `${each.first} to ${each.last}, ${sinceWords(each)}`]),
          String(data.windows.length - 1), rebuild));
}
function filesPanel() {
  const link = (name, what) => el('li', {}, el('a', {href: name}, name), ' ' + what);
  return panel(
      'Files', '',
      el('ul', {class: 'files'}, link('summary.json', 'the figures of this page'),
         link('metrics.jsonl', 'a line for each update'),
         link('metrics.csv', 'the same as a table'),
         el('li', {}, el('code', {}, 'events.out.tfevents…'), ' the same for TensorBoard'),
         link('trace.json', 'opens in ui.perfetto.dev; written when the run ends'),
         link('recorded.plan', 'the plan of the recorded updates; written when the run ends'),
         link('plan.html', 'this plan in the player, with each stage’s median costs; when the run ends'),
         link('checkpoint/', 'weights and optimizer'),
         data.unit === 'tokens' &&
             link('huggingface/', 'the model for other programs; when the run is complete')));
}

function runPanels() {
  const shown = shownWindow(), cells = shown.cells.rows.flatMap((row) => row.cells.split(' '));
  const stages = new Set(cells.map((cell) => parseInt(cell, 10)));
  return [
    head(), numbers(), windowSwitch(), whereAStepWent(), profilePanel(),
    panel(
        'One update in time',
        `Update ${shown.cells.update.version}, from the middle of those recorded.`,
        timelinePanel(shown, stages.size)),
    memoryPanel(), curvesPanel(), wirePanel(), filesPanel(),
    madeBy(data.summary.command, data.summary.version)
  ];
}
function rebuild() {
  const top = scrollY;
  drawings.length = 0;
  page.replaceChildren();
  add(page, document.body.dataset.kind === 'run' ? runPanels() : comparisonPanels());
  for (const drawing of drawings) drawing.draw();
  scrollTo(0, top);
}
rebuild();
watchWidths();
