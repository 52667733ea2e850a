// A chart of plans: activations to the right, bubble upwards; and the same as a table.

class Scatter {
  constructor(host) {
    host.innerHTML =
        '<svg viewBox="0 0 460 250" tabindex="0" role="img" aria-label="Plans by bubble and ' +
        'activations: arrow keys name them, and a table is below"></svg>';
    this.picture = host.firstChild;
    this.said = el('p', {className: 'notice', 'aria-live': 'polite'});
    this.table = el('table');
    host.append(this.said, el('details', {}, el('summary', {}, 'as a table'), this.table));
    this.picture.addEventListener('keydown', event => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (!step) return;
      event.preventDefault();
      this.tell((this.at + step + this.dots.length) % this.dots.length);
    });
    this.picture.addEventListener(
        'pointerover', ({target}) => target.dataset.dot && this.tell(+target.dataset.dot));
  }

  /** plans: {name, bubble, kept}, and isOwn for one; those at one place share a dot */
  show(plans) {
    const places = new Map();
    for (const {name, ...each} of plans) {
      const key = each.bubble.toFixed(3) + ',' + each.kept.toFixed(3);
      const place = places.get(key) || {names: []};
      places.set(key, {...each, names: [...place.names, name]});
    }
    this.dots = [...places.values()].sort((a, b) => a.kept - b.kept || a.bubble - b.bubble);
    const most = key => Math.max(0.1, ...this.dots.map(dot => dot[key]));
    const x = kept => 50 + kept / most('kept') * 390;
    const y = bubble => 205 - bubble / most('bubble') * 185;
    const text = (x, y, words, anchor) =>
        `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;
    const across = Array.from({length: most('kept') + 1}, (_, k) => k);
    const step = [0.05, 0.1, 0.2, 0.25, 0.5].find(each => most('bubble') / each <= 3);
    const shares = Array.from({length: most('bubble') / step + 1}, (_, k) => k * step);
    this.picture.innerHTML = text(245, 243, 'activations on the fullest rank', 'middle') +
        text(4, 11, 'bubble', 'start') + across.map(k => text(x(k), 223, k, 'middle')).join('') +
        shares
            .map(
                share => `<path d="M50 ${y(share)}H440"/>` +
                    text(44, y(share) + 4, percent(share), 'end'))
            .join('') +
        this.dots
            .map(
                ({isOwn, bubble, kept}, k) => `<circle data-dot="${k}" cx="${x(kept)}" cy="${
                    y(bubble)}" class="${isOwn ? 'own' : ''}" r="${isOwn ? 8 : 5}"/>`)
            .join('');
    const row = (tag, cells) => el('tr', {}, ...cells.map(cell => el(tag, {}, cell)));
    this.table.replaceChildren(
        row('th', ['plan', 'bubble', 'activations']),
        ...this.dots.map(
            dot => row('td', [dot.names.join(', '), percent(dot.bubble), digits(dot.kept)])));
    this.tell(Math.max(this.dots.findIndex(dot => dot.isOwn), 0));
  }

  /** Names a dot, and marks it. */
  tell(k) {
    const {names, bubble, kept} = this.dots[this.at = k] || {names: []};
    for (const each of this.picture.querySelectorAll('circle'))
      each.classList.toggle('told', +each.dataset.dot === k);
    this.said.textContent = names.length ?
        `${names.join(', ')}: bubble ${percent(bubble)}, activations ${digits(kept)}` :
        '';
  }
}
