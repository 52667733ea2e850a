// What a timeline hears: pointers (drag the moment, drag the bar below the axis, pinch, click a
// cell), the wheel, and keys.

function addTimelineInput(line) {
  const {host, clock} = line;
  const points = new Map();  // pointers that are down: [x, y]
  let moved = false, mode = '', pinch = null;
  const at = event => {
    const box = line.over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const span = () => {
    const [a, b] = [...points.values()];
    return {wide: Math.max(Math.abs(a[0] - b[0]), 20), middle: (a[0] + b[0]) / 2};
  };

  line.over.addEventListener('pointerdown', event => {
    if (event.button > 0) return;
    const point = at(event);
    points.set(event.pointerId, point);
    line.over.setPointerCapture(event.pointerId);
    host.focus({preventScroll: true});
    if (points.size === 2) {
      mode = 'pinch';
      pinch = span();
      return;
    }
    moved = false;
    clock.pause();
    mode = point[1] > line.axisTop + 17 ? 'bar' : event.shiftKey ? 'pan' : 'scrub';
    line.rank = line.rowOf(point[1]);
    if (mode === 'bar') dragBar(point[0]);
  });

  line.over.addEventListener('pointermove', event => {
    const point = at(event), before = points.get(event.pointerId);
    if (!before) {
      if (event.pointerType === 'mouse') line.tell(line.recordAt(...point));
      return;
    }
    if (Math.abs(point[0] - before[0]) > 3) moved = true;
    if (mode === 'pinch') {
      points.set(event.pointerId, point);
      const next = span();
      clock.zoom(next.wide / pinch.wide, line.seconds(next.middle));
      clock.pan(line.seconds(pinch.middle) - line.seconds(next.middle));
      pinch = next;
    } else if (mode === 'pan') {
      clock.pan(line.seconds(before[0]) - line.seconds(point[0]));
      points.set(event.pointerId, point);
    } else if (mode === 'bar') {
      dragBar(point[0]);
    } else if (moved) {
      line.tell(-1);
      clock.set(line.seconds(point[0]));
    }
  });

  const up = event => {
    if (!points.delete(event.pointerId)) return;
    if (mode === 'scrub' && !moved && event.type === 'pointerup') {
      const point = at(event), record = line.recordAt(...point);
      clock.set(line.seconds(point[0]));
      line.tell(record);
      line.options.pick?.(record, line.rank);
    }
    if (points.size === 0) mode = '';
  };
  line.over.addEventListener('pointerup', up);
  line.over.addEventListener('pointercancel', up);
  line.over.addEventListener('pointerleave', () => {
    if (!points.size) line.tell(-1);
  });

  /** Moves the part in view so that a point of the bar is in its middle. */
  function dragBar(x) {
    const seconds = (x - line.left) / (line.right - line.left) * clock.seconds;
    const half = (clock.to - clock.from) / 2;
    clock.window(seconds - half, seconds + half);
  }

  line.over.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey &&
        Math.abs(event.deltaX) <= Math.abs(event.deltaY))
      return;  // the page scrolls
    event.preventDefault();
    if (event.ctrlKey || event.metaKey)
      clock.zoom(Math.exp(-event.deltaY / 200), line.seconds(at(event)[0]));
    else
      clock.pan((event.deltaX || event.deltaY) * (clock.to - clock.from) / 800);
  }, {passive: false});

  host.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowRight: () => clock.set(nextEdge(line, 1, event.shiftKey)),
      ArrowLeft: () => clock.set(nextEdge(line, -1, event.shiftKey)),
      ArrowUp: () => {
        line.rank = Math.max(0, line.rank - 1);
        line.paint();
      },
      ArrowDown: () => {
        line.rank = Math.min(line.data.ranks - 1, line.rank + 1);
        line.paint();
      },
      Home: () => clock.set(0),
      End: () => clock.set(clock.seconds),
      '+': () => clock.zoom(1.5),
      '=': () => clock.zoom(1.5),
      '-': () => clock.zoom(1 / 1.5),
      0: () => clock.window(0, clock.seconds),
      ' ': () => clock.playing ? clock.pause() : clock.play(),
      Enter: () => pickHere(line),
      Escape: () => {
        line.tell(-1);
        line.options.pick?.(-1);
      },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  for (const type of ['focus', 'blur']) host.addEventListener(type, () => line.paint());
}

/** The nearest beginning or end of a computation of the chosen rank; with Shift, ten further. */
function nextEdge(line, way, far) {
  const {data, clock} = line, cells = data.computes[line.rank];
  let now = clock.now;
  for (let n = far ? 10 : 1; n > 0; --n) {
    const tiny = clock.seconds * 1e-7;
    const k = firstWhere(cells.length, i => data.end[cells[i]] > now + (way > 0 ? tiny : -tiny));
    const edges = [k - 1, k, k + 1]
                      .filter(j => j >= 0 && j < cells.length)
                      .flatMap(j => [data.start[cells[j]], data.end[cells[j]]]);
    const ahead = edges.filter(edge => way > 0 ? edge > now + tiny : edge < now - tiny);
    if (!ahead.length) return way > 0 ? clock.seconds : 0;
    now = way > 0 ? Math.min(...ahead) : Math.max(...ahead);
  }
  return now;
}

function pickHere(line) {
  const {data, clock} = line, k = computationAt(data, line.rank, clock.now);
  const record = k < 0 ? -1 : data.computes[line.rank][k];
  line.tell(record);
  line.options.pick?.(record, line.rank);
}
