// Timeline: what every rank does, on a canvas; for the plan player and for reports of runs.
//
//   const clock = new Clock(data.seconds);
//   const timeline = new Timeline(host, clock, data, options);
// host:    an element; its width is followed, its height is set
// data:    timelineData({seconds, records: {...}}), see columns.js
// options, all of which can be left out:
//   axis(seconds) -> text    a tick's text; default: the number
//   unit                     the axis' name, "forwards"
//   names                    of ranks; default: "rank 0"
//   idle                     by rank: the share to write at the row's end; false hides them
//   versions                 false: cells have no version's number
//   pick(record, rank)       a cell was clicked, or -1: a gap of this rank, if one is given
//   fault                    {rank, label, box}: the cell that breaks a rule; `box` is an element
//                            that is placed below its row
//   stopped                  by rank: whether it waits for ever
//   words(record) -> text    what a cell's tip says besides what it is
//   about(record) -> text    all that a cell's tip says, instead
//   idleName                 the word behind these shares; default: "bubble"
//   marks(line, pen, rank)   draws more on a row's cells
// Methods: show(data, options) draws other data; path(records) marks a chain of records;
// rowOf(y), recordAt(x, y). Keys: arrows, + -, Home, End, Enter; pointers: drag, pinch, Ctrl+wheel.
// Files: timeline_paint.js and timeline_cells.js draw, timeline_input.js hears.
// Colours are CSS variables of figure.h.

const theme = {
  values: {},
  get(name) {
    return this.values[name] ??=
               getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  },
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  theme.values = {};
  dispatchEvent(new Event('themechange'));
});

/** The geometry that all charts with a time axis share, so that moments are below each other. */
const axisSpace = width => width < 560 ? {left: 30, right: 40} : {left: 66, right: 84};

class Timeline {
  constructor(host, clock, data, options = {}) {
    this.host = host;
    this.clock = clock;
    this.marked = [];
    this.rank = 0;
    host.classList.add('timeline');
    host.tabIndex = 0;
    host.setAttribute('role', 'application');
    this.base = host.appendChild(document.createElement('canvas'));
    this.over = host.appendChild(document.createElement('canvas'));
    this.tip = host.appendChild(document.createElement('div'));
    this.tip.className = 'tip';
    this.tip.hidden = true;
    for (const canvas of [this.base, this.over]) canvas.setAttribute('aria-hidden', 'true');
    this.show(data, options);
    new ResizeObserver(() => this.resize()).observe(host);
    addEventListener('themechange', () => this.paint());
    clock.listen(what => what === 'view' ? this.paint(true) : this.paintOver());
    addTimelineInput(this);
  }

  show(data, options = this.options) {
    this.options?.fault?.box?.remove();
    this.data = data;
    this.options = options;
    this.marked = [];
    this.tip.hidden = true;
    this.rank = Math.min(this.rank, data.ranks - 1);
    if (options.fault?.box) this.host.appendChild(options.fault.box);
    this.resize();
  }

  path(records) {
    this.marked = records;
    this.paintOver();
  }

  /** Heights of rows, which depend on how many there are. */
  resize() {
    const width = Math.floor(this.host.clientWidth);
    if (!width) return;
    const {ranks} = this.data;
    const space = axisSpace(width);
    const high = ranks <= 8 ? 38 :
        ranks <= 16         ? 28 :
        ranks <= 32         ? 20 :
        ranks <= 64         ? 12 :
                              Math.max(2, Math.floor(900 / ranks));
    const gap = ranks <= 16 ? 12 : ranks <= 64 ? 3 : ranks <= 300 ? 1 : 0;
    Object.assign(this, {width, left: space.left, right: width - space.right, high, gap, top: 6});
    const {fault} = this.options;
    this.faultSpace = 0;
    if (fault?.box) {
      fault.box.style.maxWidth = Math.min(width - 16, 620) + 'px';
      this.faultSpace = fault.box.offsetHeight + 14;
    }
    this.axisTop = this.rowTop(ranks);
    this.height = this.axisTop + 36;
    this.scale = Math.min(devicePixelRatio || 1, 2);
    for (const canvas of [this.base, this.over]) {
      canvas.width = width * this.scale;
      canvas.height = this.height * this.scale;
      canvas.style.width = width + 'px';
      canvas.style.height = this.height + 'px';
    }
    this.host.style.height = this.height + 'px';
    this.paint();
  }

  rowTop(rank) {
    const below = this.options.fault && rank > this.options.fault.rank ? this.faultSpace : 0;
    return this.top + rank * (this.high + this.gap) + below;
  }

  rowOf(y) {
    for (let rank = 0; rank < this.data.ranks; ++rank)
      if (y < this.rowTop(rank) + this.high + this.gap) return rank;
    return this.data.ranks - 1;
  }

  /** Takes the part of the axis that the clock shows, in whole columns of pixels. */
  look() {
    const {from, to} = this.clock, column = (to - from) / (this.right - this.left) / this.scale;
    if (!(Math.abs(column / this.column - 1) < 1e-9)) this.column = column;  // seconds
    this.first = Math.round(from / this.column);
  }
  x(seconds) { return this.left + (seconds / this.column - this.first) / this.scale; }
  seconds(x) { return ((x - this.left) * this.scale + this.first) * this.column; }

  /** The computation at a point, or the collective below it; -1: none. */
  recordAt(x, y) {
    const {data} = this, rank = this.rowOf(y), seconds = this.seconds(x);
    if (y < this.rowTop(rank) || y > this.rowTop(rank) + this.high) return -1;
    const near = (this.clock.to - this.clock.from) / (this.right - this.left) * 3;
    for (const list of [data.computes[rank], data.meetings[rank]]) {
      for (let k = firstWhere(list.length, i => data.end[list[i]] > seconds - near);
           k < list.length && data.start[list[k]] <= seconds + near; ++k) {
        const i = list[k], thin = data.op[i] === UPDATE || isCollective(data.op[i]);
        if (thin || (data.start[i] <= seconds && data.end[i] > seconds)) return i;
      }
    }
    return -1;
  }

  /** moved: nothing has changed but the part of the axis that is shown */
  paint(moved = false) {
    if (!this.width) return;
    this.look();
    paintTimeline(this, moved);
    this.paintOver();
  }

  paintOver() {
    if (this.width) paintCursor(this);
  }

  /** Shows a tip beside a cell; hides it if there is none. */
  tell(record) {
    this.tip.hidden = record < 0;
    if (record < 0) return;
    const {data, options} = this;
    const rank = rankOf(data, record), axis = options.axis || (s => '' + +s.toPrecision(4));
    const name = describe(data, record);
    const reads = isPass(data.op[record]) ? `, reads version ${data.version[record]}` : '';
    this.tip.textContent = options.about?.(record) ??
        name[0].toUpperCase() + name.slice(1) + reads +
            `\n${this.name(rank)}, ${axis(data.start[record])} to ${axis(data.end[record])} ` +
            (options.unit || '') + (options.words ? '\n' + options.words(record) : '');
    // After the cell, which leaves what it waited for in sight; or before it; or else below it.
    const {offsetWidth: wide, offsetHeight: tall} = this.tip, row = this.rowTop(rank);
    const after = Math.min(this.x(data.end[record]), this.right) + 10,
          before = Math.max(this.x(data.start[record]), this.left) - 10 - wide;
    const isBeside = after + wide < this.width || before > 0;
    const x = after + wide < this.width ? after : before > 0 ? before : after - wide / 2;
    const y = isBeside ? row + (this.high - tall) / 2 : row + this.high + 8;
    this.tip.style.left = Math.min(Math.max(x, 2), this.width - wide - 2) + 'px';
    this.tip.style.top = (isBeside                        ? Math.max(y, 0) :
                              y + tall < this.height + 40 ? y :
                                                            row - tall - 8) +
        'px';
  }

  name(rank) { return this.options.names?.[rank] ?? 'rank ' + rank; }
}
