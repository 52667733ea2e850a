// The plan's text: by rank the words around the present instruction, which is lit; and a field in
// which the whole text can be edited.
'use strict';

const wordsAround = 14;

// What the words of a plan's header mean, unless they mean what the field of their name does.
const headerWords = {
  per_step: 'microbatches of an update, of all replicas',
  steps: 'updates of the plan',
  keep: 'versions that are still there when the plan ends, for the plans behind it, by stage',
  stagger: 'whether microbatches take turns: 1 in the first update, 2 in all',
  home: 'the rank that keeps a stage’s state, by stage',
  period: 'updates of the part between the bars, which repeats',
  sharded: 'the ZeRO level',
  clip: 'updates wait for the norm of the whole gradient',
  tied: 'stages that share a tensor',
  groups: 'ranks that add up, or gather, together'
};

class PlanText {
  constructor(host, clock, edited) {
    Object.assign(this, {host, clock, edited});
    this.key = host.appendChild(el('p', {className: 'key'}));
    this.rows = host.appendChild(el('div'));
    this.more = host.appendChild(el('details', {}, el('summary', {}, 'The whole text')));
    this.field = this.more.appendChild(
        el('textarea', {spellcheck: false, 'aria-label': 'the text of the plan'}));
    this.verdict = this.more.appendChild(el('p', {className: 'notice'}));
    this.more.addEventListener('toggle', () => this.fill());
    this.field.addEventListener('input', () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.edited?.(this.field.value), 250);
    });
    drawAtMoments(host, clock, () => this.update());
  }

  show(answer, data) {
    Object.assign(this, {answer, data, places: answer.places && unpackAll(answer.places)});
    this.lines = (answer.text || '').split('\n');
    this.showKey();
    this.fill();
    this.update();
  }

  /** Says what the plan's words mean: the first kind at once, the others on demand. */
  showKey() {
    const kind = word => word.replace(/\d+/g, '0');
    const there = new Set((this.answer.text || '').split(/\s+/).map(kind));
    const meaning = (text, words) => el('span', {}, el('code', {}, text), ` ${words}. `);
    const fields = page.fields.map(({key, what}) => [key, what.replace(/(:| \(default).*/, '')]);
    const [first, ...operations] =
        page.operations.filter(each => there.has(kind(each.text)))
            .map(({text, words}) => meaning(text, words));
    const others = [
      ...operations, ...Object.entries({...Object.fromEntries(fields), ...headerWords})
                         .filter(([word]) => there.has(word))
                         .map(([word, words]) => meaning(word, words))
    ];
    const {open} = this.key.querySelector('details') || {};
    this.key.replaceChildren(...(
        first ? [first, el('details', {open}, el('summary', {}, 'The other words'), ...others)] :
                []));
  }

  fill() {
    if (!this.more.open) return;
    if (document.activeElement !== this.field) this.field.value = this.answer.text || '';
    this.field.readOnly = !this.edited;
    const {error} = this.answer;
    this.verdict.className = error ? 'error' : 'notice';
    const [line, column] = error?.place || [];
    this.verdict.textContent = error ?
        (line === undefined ? '' : `Line ${line + 1}, column ${column + 1}: `) + error.message :
        this.edited ? 'Every rule holds. Change or take away a word, and see.' :
                      'Editing needs the player’s module, which this page was built without.';
    if (!error || line === undefined) return;
    let start = 0;
    for (let k = 0; k < line; ++k) start += this.lines[k].length + 1;
    if (document.activeElement !== this.field)
      this.field.setSelectionRange(start + column, start + column + error.place[2]);
  }

  word(rank, cell) {
    const {places} = this, i = places.row_begin[rank] + cell;
    return this.lines[places.line[rank]].slice(
        places.column[i], places.column[i] + places.length[i]);
  }

  /** The written cell that a rank runs now, or else the last that it has begun; -1: none yet. */
  cellAt(rank) {
    const {data, clock} = this, k = computationAt(data, rank, clock.now),
                 cells = data.computes[rank];
    const last = firstWhere(cells.length, i => data.start[cells[i]] > clock.now) - 1;
    return {
      cell: k >= 0  ? data.cell[cells[k]] :
          last >= 0 ? data.cell[cells[last]] :
                      -1,
      runs: k >= 0
    };
  }

  update() {
    if (!this.answer) return;
    const {places, data, answer} = this;
    if (!places || !data) {
      this.rows.replaceChildren(...this.badLine());
      return;
    }
    const rows =
        [el('div', {className: 'row'}, el('b', {}, 'header'),
            el('span', {}, this.lines.find(line => line.replace(/#.*/, '').trim()) || ''))];
    const wrong = answer.error || {rank: -1};
    for (let rank = 0; rank < Math.min(data.ranks, 32); ++rank) {
      const {cell, runs} = this.cellAt(rank),
                   count = places.row_begin[rank + 1] - places.row_begin[rank];
      const first = Math.max(0, Math.min(cell - 3, count - wordsAround));
      const parts = [];  // words that look alike, [look, text]
      for (let k = first; k < Math.min(count, first + wordsAround); ++k) {
        const look = wrong.rank === rank && wrong.index === k ? 'bad' :
            k < cell || (k === cell && !runs)                 ? 'past' :
            k === cell                                        ? 'now' :
                                                                'later';
        if (parts.at(-1)?.[0] === look)
          parts.at(-1)[1] += ' ' + this.word(rank, k);
        else
          parts.push([look, this.word(rank, k)]);
      }
      rows.push(
          el('div', {className: 'row'}, el('b', {}, 'rank ' + rank),
             el('span', {}, first > 0 ? '… ' : '',
                ...parts.flatMap(([look, text]) => [el('span', {className: look}, text), ' ']))));
    }
    if (data.ranks > 32)
      rows.push(el('p', {className: 'key'}, `and ${data.ranks - 32} more ranks`));
    this.rows.replaceChildren(...rows);
  }

  /** The line with a word that can't be read. */
  badLine() {
    const place = this.answer.error?.place;
    if (!place) return [];
    const [number, column, length] = place, line = this.lines[number] || '';
    return [el(
        'div', {className: 'row'}, el('b', {}, 'line ' + (number + 1)),
        el('span', {}, line.slice(Math.max(0, column - 60), column),
           el('span', {className: 'bad'}, line.slice(column, column + length)),
           line.slice(column + length, column + 60)))];
  }
}
