// The plan's text, in a field in which it is edited: each rank's present instruction is lit, and the
// word that breaks a rule.

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

/** How many letters have to be put in, taken out or replaced to make one word of another. */
function distance(one, other) {
  let row = Array.from({length: other.length + 1}, (_, j) => j);
  for (const letter of one) {
    let left = row[0] + 1;
    row = row.map(
        (above, j) => left =
            j ? Math.min(left + 1, above + 1, row[j - 1] + (letter !== other[j - 1])) : left);
  }
  return row.at(-1);
}

const legal = {};  // header: of the plan that was read last; words: of those with this header
/** Names the nearest word of a legal plan, at most two letters away, in the error about a misspelt
 * one; of two that are as near, the one that the plan lacks. */
function suggestWord({text = '', header, error}, isGame) {
  const [first, ...rows] = (isGame ? withoutMessages(text) : text).split('\n');
  const there = new Set(rows.join(' ').split(/\s+/)), [line, from, length] = error?.place || [];
  if (header && !error) {
    legal.words = new Set([...first === legal.header ? legal.words : [], ...there]);
    legal.header = first;
  } else if (error?.rule === 'text' && line > 0 && legal.words) {
    const word = text.split('\n')[line].slice(from, from + length);
    const far = each => distance(word, each) + there.has(each) / 2;
    const best = [...legal.words].reduce((best, each) => far(each) < far(best) ? each : best);
    if (distance(word, best) <= 2)
      error.message = `${word} is no word of a plan; did you mean ${best}?`;
  }
}

class PlanText {
  constructor(host, clock, edited) {
    Object.assign(this, {host, clock});
    this.marks = el('pre', {'aria-hidden': 'true'});  // what one sees of the text
    this.field = el('textarea', {
      spellcheck: false,
      wrap: 'off',
      'aria-label': 'the text of the plan',
      onscroll: () => this.follow(),
      oninput: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => edited(this.sent = this.field.value), 250);
        this.update();
      }
    });
    this.verdict = el('p', {className: 'notice', role: 'status'});
    this.key = el('p', {className: 'key'});
    host.append(el('div', {className: 'field'}, this.marks, this.field), this.verdict, this.key);
    drawAtMoments(host, clock, () => this.update());
  }

  show(answer, data) {
    Object.assign(this, {answer, data, places: answer.places && unpackAll(answer.places)});
    const {error, text = ''} = answer, lines = text.split('\n');
    this.starts = [0];  // of lines
    for (const line of lines) this.starts.push(this.starts.at(-1) + line.length + 1);
    this.field.rows = Math.min(text.trim().split('\n').length + 1, 14);
    if (text !== this.sent) this.field.value = this.sent = text;  // else one may type on
    const [line, column] = error?.place || [];
    this.verdict.className = error ? 'error' : 'notice';
    this.verdict.textContent = error ?
        (line === undefined ? '' : `Line ${line + 1}, column ${column + 1}: `) + error.message :
        'Every rule holds. Change or take away a word, and see.';
    this.showKey();
    this.update();
  }

  /** Says what the plan's words mean: the first kind at once, the others on demand. */
  showKey() {
    const kind = word => word.replace(/\d+/g, '0'), numbers = word => word.match(/\d+/g) || [];
    const there = new Map((this.answer.text || '').split(/\s+/).map(word => [kind(word), word]));
    const meaning = (text, words) => {
      const word = there.get(kind(text)), of = numbers(text), own = numbers(word);
      const inPlan = words.replace(/\d+/g, number => own[of.indexOf(number)] ?? number);
      return el('span', {}, el('code', {}, word), ` ${inPlan}. `);
    };
    const fields = page.fields.map(({key, what}) => [key, what.replace(/(:| \(default).*/, '')]);
    const [first, ...operations] = page.operations.filter(each => there.has(kind(each.text)))
                                       .map(({text, words}) => meaning(text, words));
    const others = [
      ...operations,
      ...Object.entries({...Object.fromEntries(fields), ...headerWords})
          .filter(([word]) => there.has(word))
          .map(([word, words]) => meaning(word, words))
    ];
    const {open} = this.key.querySelector('details') || {};
    this.key.replaceChildren(
        ...(first ?
                [
                  'The header; then a line for each rank. ', first,
                  el('details', {open}, el('summary', {}, 'The other words'), ...others)
                ] :
                []));
  }

  /** What is lit: [first letter, end, look] in the order of the text. */
  looks() {
    const {places, data, answer, starts, clock} = this, {place} = answer.error || {}, looks = [];
    if (place) {
      const from = starts[place[0]] + place[1];
      looks.push([from, from + place[2], 'bad']);
    }
    for (let rank = 0; places && rank < (data?.ranks || 0); ++rank) {
      const cells = data.computes[rank], {now} = clock;
      const begun = firstWhere(cells.length, k => data.start[cells[k]] > now) - 1;
      if (begun < 0) continue;
      const i = places.row_begin[rank] + data.cell[cells[begun]], line = starts[places.line[rank]];
      const from = line + places.column[i], end = from + places.length[i];
      const runs = data.end[cells[begun]] > now;
      looks.push([line, runs ? from : end, 'past']);
      if (runs) looks.push([from, end, 'now']);
    }
    return looks.sort((a, b) => a[0] - b[0]);
  }

  update() {
    if (!this.answer) return;
    const {field, marks} = this, {value} = field, parts = [];
    const isAnswered = value === (this.answer.text || '');  // else the marks of an older text
    let done = 0;
    for (const [from, end, look] of isAnswered ? this.looks() : []) {
      if (from < done) continue;
      parts.push(value.slice(done, from), el('span', {className: look}, value.slice(from, end)));
      done = end;
    }
    marks.replaceChildren(...parts, value.slice(done) + '\n');
    const now = marks.querySelector('.now');
    const left = now?.offsetLeft - field.scrollLeft;
    if ((left < 0 || left > field.clientWidth - 60) && document.activeElement !== field)
      field.scrollLeft = now.offsetLeft - field.clientWidth / 2;
    this.follow();
  }

  follow() {
    const {marks, field} = this;
    Object.assign(marks, {scrollLeft: field.scrollLeft, scrollTop: field.scrollTop});
  }
}
