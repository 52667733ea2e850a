// The timeline of recorded updates: planned above measured, on canvas. Both show the same part: of
// one update, or of all that were recorded.

function timelinePanel(shownWindow, stages) {
  const {cells} = shownWindow, rows = rowsOf(cells), update = cells.update;
  const view = {mode: chosen('time', 'fit'), from: 0, to: 1, at: null};
  const about = el('p', {class: 'about selected', 'aria-live': 'polite'});
  const panels = ['planned', 'measured'].map((which) => makeCanvas(which));

  /** The seconds that a panel can show: its update, as long as the longest, or all. */
  function whole(which) {
    const [begin, end] = update[which];
    if (view.mode === 'all')
      return [0, shownWindow.seconds[which === 'planned' ? 'simulated' : which]];
    const length = view.mode === 'scale' ?
        Math.max(...['planned', 'measured'].map((each) => update[each][1] - update[each][0])) :
        end - begin;
    return [begin, begin + length];
  }
  function span(which) {
    const [begin, end] = whole(which), length = end - begin;
    return [begin + view.from * length, begin + view.to * length];
  }
  function makeCanvas(which) {
    const canvas = el('canvas', {
      class: 'cells own-tip',
      tabindex: 0,
      role: 'application',
      'aria-label': `${which} timeline: arrow keys go from cell to cell, + and - zoom`
    });
    const place = drawn((width) => {
      drawCells(canvas, which, width);
      return canvas;
    });
    listen(canvas, which);
    return {which, canvas, place};
  }
  const redraw = () => panels.forEach((each) => each.place.redraw());

  function drawCells(canvas, which, width) {
    const wide = width > 560, left = wide ? 64 : 34, right = wide ? 74 : 8;
    const high = rows.length <= 12 ? 30 : rows.length <= 32 ? 20 : 9, gap = high > 12 ? 10 : 3;
    const height = rows.length * (high + gap) + 22, ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    const ink = canvas.getContext('2d'), [from, to] = span(which);
    ink.scale(ratio, ratio);
    const x = (time) => left + (time - from) / (to - from) * (width - left - right);
    canvas.layout = {left, right, high, gap, width, from, to};
    const colors = (name) => drawCells.cache[name] ||= colorOf(name);
    drawCells.cache = {};
    rows.forEach((row, i) => {
      const top = i * (high + gap);
      ink.font = '12px system-ui, sans-serif';
      ink.textBaseline = 'middle';
      ink.textAlign = 'left';
      ink.fillStyle = colors('dim');
      if (high > 12 || i % 5 === 0)
        ink.fillText(wide ? `rank ${row.rank}` : `r${row.rank}`, 0, top + high / 2);
      ink.save();
      ink.beginPath();
      ink.rect(left, top, width - left - right, high + gap);
      ink.clip();
      ink.fillStyle = hatch(ink, colors);
      ink.fillRect(left, top, Math.min(width - right, x(endOf(which))) - left, high);
      let busy = 0;
      row.cells.forEach((cell) => {
        const [begin, end] = cell[which];
        busy += Math.max(0, Math.min(end, to) - Math.max(begin, from));
        if (end < from || begin > to) return;
        drawCell(
            ink, colors, cell, which, x(begin), Math.max(0.6, x(end) - x(begin)), top, high, x);
      });
      ink.restore();
      ink.fillStyle = colors('dim');
      const idle = 1 - busy / Math.max(1e-30, Math.min(to, endOf(which)) - from);
      if (wide && high > 12)
        ink.fillText(`${percent(Math.max(0, idle))} idle`, width - right + 8, top + high / 2);
    });
    drawAxis(
        ink, colors, which, x, rows.length * (high + gap) - gap + 6, from, to, left, width - right);
  }
  const endOf = (which) => view.mode === 'all' ? whole(which)[1] : update[which][1];

  function drawCell(ink, colors, cell, which, x, width, top, high, place) {
    const shade = cell.kind === 'S' ? '' : '-' + (shownWindow.overlaps ? cell.version % 4 : 1);
    const low = cell.again ? high * 0.3 : 0;
    ink.fillStyle = colors(family[cell.kind] + shade);
    ink.fillRect(x, top + low, width > 3 ? width - 0.8 : width, high - low);
    const longer = cell.measured[1] - cell.measured[0] - (cell.planned[1] - cell.planned[0]);
    if (which === 'measured' && longer > (cell.planned[1] - cell.planned[0]) / 2) {
      ink.fillStyle = colors('fault');
      ink.fillRect(x, top, width > 3 ? width - 0.8 : width, Math.min(4, high / 3));
    }
    if (which === 'measured' && cell.wait && high > 12) {
      let before = cell.measured[0];
      for (const part of [2, 1, 0]) {
        const begin = before - cell.wait.parts[part];
        ink.fillStyle = colors(waitColors[part]);
        ink.fillRect(place(begin), top + high + 1, place(before) - place(begin), 4);
        before = begin;
      }
    }
    if (view.at && view.at.cell === cell) {
      ink.strokeStyle = colors('accent');
      ink.lineWidth = 2.5;
      ink.strokeRect(x + 1, top + 1, Math.max(2, width - 2.5), high - 2);
    }
    const words = cell.kind === 'S' ? '' : cell.micro;
    if (high < 14 || !words || width < words.length * 7 + 5) return;
    ink.fillStyle = colors(family[cell.kind] + shade + '-ink');
    ink.textAlign = 'center';
    const two = shownWindow.overlaps && high >= 28 && !cell.again && width > 22;
    ink.font = '12px system-ui, sans-serif';
    ink.fillText(words, x + width / 2, top + low + (high - low) / 2 - (two ? 5 : 0));
    ink.font = '9px system-ui, sans-serif';
    if (two) ink.fillText('v' + cell.version, x + width / 2, top + high - 7);
    ink.textAlign = 'left';
  }
  function drawAxis(ink, colors, which, x, y, from, to, left, right) {
    const zero = view.mode === 'all' ? 0 : update[which][0];
    ink.font = '11px system-ui, sans-serif';
    ink.fillStyle = colors('dim');
    ink.textAlign = 'center';
    for (const tick of ticks(from - zero, to - zero, (right - left) / 90)) {
      const at = x(tick + zero);
      ink.fillRect(at, y - 3, 1, 4);
      if (at > left - 5 && at < right - 10) ink.fillText(seconds(+tick.toPrecision(6)), at, y + 9);
    }
    ink.textAlign = 'left';
  }

  // ---- the reader's hand ----

  function cellAt(canvas, which, event) {
    const {left, right, high, gap, width, from, to} = canvas.layout;
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left;
    const row = rows[Math.floor((event.clientY - box.top) / (high + gap))];
    if (!row || px < left || px > width - right) return null;
    const time = from + (px - left) / (width - left - right) * (to - from);
    const near = (to - from) / (width - left - right) * 2;
    const cell =
        row.cells.find((each) => each[which][0] - near <= time && time <= each[which][1] + near);
    return cell ? {row, cell} : null;
  }
  const describe = (at) => describeCell(at, update, stages, view.mode !== 'all');
  function select(at) {
    view.at = at;
    about.textContent = at ? describe(at).replaceAll('\n', '; ') : '';
    redraw();
  }
  function zoom(factor, middle) {
    const length = Math.min(1, Math.max(0.002, (view.to - view.from) * factor));
    const from = middle - (middle - view.from) * length / (view.to - view.from);
    view.from = Math.min(Math.max(0, from), 1 - length);
    view.to = view.from + length;
    redraw();
  }
  const middle = () => (view.from + view.to) / 2;
  const pan = (by) => {
    const length = view.to - view.from;
    view.from = Math.min(Math.max(0, view.from + by * length), 1 - length);
    view.to = view.from + length;
    redraw();
  };
  function listen(canvas, which) {
    const pointers = new Map();
    const share = (event) => {
      const {left, right, width} = canvas.layout, box = canvas.getBoundingClientRect();
      return view.from +
          (event.clientX - box.left - left) / (width - left - right) * (view.to - view.from);
    };
    canvas.addEventListener(
        'pointerdown',
        (event) => pointers.set(event.pointerId, {x: event.clientX, start: event.clientX}));
    canvas.addEventListener('pointermove', (event) => {
      const at = cellAt(canvas, which, event), old = pointers.get(event.pointerId);
      showTip(at ? describe(at) : '', event.clientX, event.clientY);
      if (!old || !event.buttons) return;
      const {left, right, width} = canvas.layout;
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        zoom(
            Math.abs(old.x - other.x) / Math.max(1, Math.abs(event.clientX - other.x)),
            share(event));
      } else {
        pan((old.x - event.clientX) / (width - left - right));
      }
      old.x = event.clientX;
    });
    for (const end of ['pointerup', 'pointercancel', 'pointerleave'])
      canvas.addEventListener(end, (event) => {
        const old = pointers.get(event.pointerId);
        if (end === 'pointerup' && old && Math.abs(old.start - event.clientX) < 4)
          select(cellAt(canvas, which, event));
        pointers.delete(event.pointerId);
        if (end === 'pointerleave') showTip('');
      });
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 300), share(event));
    }, {passive: false});
    canvas.addEventListener('keydown', (event) => {
      const row = view.at ? rows.indexOf(view.at.row) : 0, cells = rows[row].cells;
      const place = view.at ? cells.indexOf(view.at.cell) : -1;
      const inRow = (which, i) =>
          rows[which] && rows[which].cells[Math.min(Math.max(0, i), rows[which].cells.length - 1)];
      let at;
      if (event.key === '+' || event.key === '-')
        zoom(event.key === '+' ? 0.6 : 1 / 0.6, middle());
      else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight')
        at = {row: rows[row], cell: inRow(row, place + (event.key === 'ArrowLeft' ? -1 : 1))};
      else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
        const next = row + (event.key === 'ArrowUp' ? -1 : 1);
        if (rows[next]) at = {row: rows[next], cell: inRow(next, place)};
      } else
        return;
      event.preventDefault();
      if (at) {
        select(at);
        jump(at);
      }
    });
  }
  /** Moves the view so that a cell is in it. */
  function jump({cell}) {
    const [begin, end] = whole('measured'),
                  middle = ((cell.measured[0] + cell.measured[1]) / 2 - begin) / (end - begin);
    if (middle >= view.from && middle <= view.to) return;
    pan((middle - (view.from + view.to) / 2) / (view.to - view.from));
  }
  function jumpToLate() {
    const row = rows.find((each) => each.same.includes(cells.late.rank)) || rows[0];
    const cell = row.cells.find((each) => each.text === cells.late.cell);
    if (!cell) return;
    view.from = 0;
    view.to = 1;
    select({row, cell});
    panels[1].canvas.focus({preventScroll: true});
  }

  const late = cells.late ?
      el('p', {class: 'late'},
         el('b', {},
            `First cell that ended behind its plan: rank ${cells.late.rank}, ${cells.late.words}, +${
                seconds(cells.late.seconds)}. `),
         'It ' + cells.late.why + '. ', el('button', {onclick: jumpToLate}, 'Jump to it')) :
      el('p', {class: 'late'},
         'Every cell of this update ended as planned, to a quarter of a time step.');
  const tools =
      el('div', {class: 'tools'},
         switcher(
             'time', 'What the timelines show',
             [
               ['fit', 'one update, fitted'], ['scale', 'same scale'],
               ['all', `updates ${shownWindow.first} to ${shownWindow.last}`]
             ],
             'fit',
             (mode) => {
               view.mode = mode;
               view.from = 0;
               view.to = 1;
               redraw();
             }),
         el('button', {onclick: () => zoom(0.6, middle()), 'aria-label': 'zoom in'}, '+'),
         el('button', {onclick: () => zoom(1 / 0.6, middle()), 'aria-label': 'zoom out'}, '−'),
         el('span', {}, 'Ctrl and wheel zoom, dragging moves, a click tells more.'));
  const length = (which) => update[which][1] - update[which][0];
  return [
    late, tools,
    el('h3', {}, `planned: update ${update.version} takes ${seconds(length('planned'))}`),
    panels[0].place, el('h3', {}, `measured: ${seconds(length('measured'))}`), panels[1].place,
    timelineLegend(rows, shownWindow), about
  ];
}
