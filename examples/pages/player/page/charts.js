// Charts below the timeline, on its axis: the memory of each rank, and what is sent.

class Chart {
  constructor(host, clock, high) {
    Object.assign(this, {host, clock, high});
    host.classList.add('timeline');
    this.base = host.appendChild(document.createElement('canvas'));
    this.over = host.appendChild(document.createElement('canvas'));
    this.base.setAttribute('role', 'img');
    this.over.setAttribute('aria-hidden', 'true');
    new ResizeObserver(() => this.paint()).observe(host);
    addEventListener('themechange', () => this.paint());
    clock.listen(what => what === 'view' ? this.paint() : this.paintOver());
    new IntersectionObserver(seen => {
      this.away = !seen[seen.length - 1].isIntersecting;
      if (this.late) this.paint();
    }).observe(host);
    const scrub = event => {
      const x = event.clientX - this.over.getBoundingClientRect().left;
      clock.set(clock.from + (x - this.left) / (this.right - this.left) * (clock.to - clock.from));
    };
    this.over.addEventListener('pointerdown', event => {
      this.over.setPointerCapture(event.pointerId);
      clock.pause();
      scrub(event);
    });
    this.over.addEventListener('pointermove', event => {
      if (event.buttons) scrub(event);
    });
  }

  x(seconds) {
    const {from, to} = this.clock;
    return this.left + (seconds - from) / (to - from) * (this.right - this.left);
  }

  paint() {
    const width = Math.floor(this.host.clientWidth);
    // What nobody sees is painted when it is seen, unless it would stick out of a narrower page.
    this.late = this.away && this.width === width;
    if (!width || !this.draw || !this.data || this.late) return;
    const space = axisSpace(width), scale = Math.min(devicePixelRatio || 1, 2);
    Object.assign(this, {width, left: space.left, right: width - space.right, scale});
    const height = typeof this.high === 'function' ? this.high() : this.high;
    this.height = height;
    this.host.style.height = height + 'px';
    for (const canvas of [this.base, this.over]) {
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.style.width = width + 'px';
      canvas.style.height = height + 'px';
    }
    const pen = this.base.getContext('2d');
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.draw(pen);
    this.paintOver();
  }

  paintOver() {
    if (!this.width) return;
    const pen = this.over.getContext('2d'), x = this.x(this.clock.now);
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    if (x < this.left - 1 || x > this.right + 1) return;
    pen.fillStyle = theme.get('accent');
    pen.fillRect(x - 1, 0, 2, this.height);
  }
}

// Colours of kinds of memory, from below: optimizer, weights, gradient sums, activations, messages.
const memoryColors = ['optimizer', 'weights', 'gradients', 'activations', 'activations'];

// Units of memory that are no bytes of a model.
const memoryUnits = ['activations', 'versions'];
const isInBytes = unit => !memoryUnits.includes(unit);

class Memory extends Chart {
  constructor(host, clock, ask) {
    super(host, clock, () => {
      const {ranks} = this.data,
            high = ranks <= 8 ? 46 :
          ranks <= 16         ? 30 :
          ranks <= 64         ? 12 :
                                Math.max(2, 600 / ranks);
      return ranks * (high + (ranks <= 16 ? 8 : ranks <= 64 ? 2 : 0)) + 4;
    });
    this.unit = 'activations';
    this.sequences = 0;  // their place among those that a reader chooses among
    this.device = 0;     // bytes that it has
    this.ask = ask;
  }

  /** Shows an answer's levels in the chosen unit, or asks for them. */
  show(answer, data) {
    const found = answer.memory[this.unit];
    if (!found) return this.ask();
    this.data = data;
    const at = isInBytes(this.unit) ? this.sequences : 0, kinds = memoryColors.length;
    this.moments = found.moments.map(unpack);
    this.level = found.level.map(unpack);
    this.bytes = found.bytes.slice(at * kinds, (at + 1) * kinds).map(unpack);
    this.peaks = found.peaks[at];
    this.peak = Math.max(...this.peaks, 1e-9);
    this.paint();
  }

  text(amount) { return isInBytes(this.unit) ? bytesText(amount) : digits(amount); }

  draw(pen) {
    const {data, clock} = this, limit = isInBytes(this.unit) && this.device, ranks = data.ranks;
    const gap = ranks <= 16 ? 8 : ranks <= 64 ? 2 : 0, high = (this.height - 4) / ranks - gap;
    const top = Math.max(this.peak, limit && this.peak > limit / 3 ? limit * 1.05 : 0);
    pen.font = '12px system-ui, sans-serif';
    const step = high + gap >= 13 ? 1 : Math.ceil(13 / (high + gap));
    this.moments.forEach((moments, r) => {
      const level = this.level[r], peak = this.peaks[r];
      const y = r * (high + gap) + high + 2;
      pen.fillStyle = theme.get('lane');
      pen.fillRect(this.left, y - high, this.right - this.left, high);
      const first = Math.max(0, firstWhere(moments.length, k => moments[k] > clock.from) - 1);
      for (let kind = memoryColors.length - 1; kind >= 0; --kind) {
        if (!level.some(k => this.bytes[kind][k] > 0)) continue;
        pen.fillStyle = theme.get(memoryColors[kind]);
        pen.beginPath();
        pen.moveTo(this.left, y);
        let most = 0, drawn = this.left;
        for (let k = first; k < moments.length && moments[k] <= clock.to; ++k) {
          let now = 0;
          for (let j = 0; j <= kind; ++j) now += this.bytes[j][level[k]];
          const x0 = Math.max(this.x(moments[k]), this.left);
          most = Math.max(most, now);  // of the moments that share half a pixel
          const x1 = Math.min(
              k + 1 < moments.length ? this.x(moments[k + 1]) : this.x(data.seconds), this.right);
          if (x1 - drawn < 0.5 && k + 1 < moments.length) continue;
          for (const [x, amount] of [[drawn, most], [x0, most], [x0, now], [x1, now]])
            pen.lineTo(x, y - amount / top * high);
          most = 0;
          drawn = x1;
        }
        pen.lineTo(Math.min(this.x(data.seconds), this.right), y);
        pen.fill();
      }
      if (limit && limit <= top) {
        pen.fillStyle = theme.get('fault');
        pen.fillRect(this.left, y - limit / top * high, this.right - this.left, 1.5);
      }
      if (r % step) return;
      pen.textAlign = 'left';
      pen.fillStyle = theme.get('ink');
      pen.fillText((this.left > 60 ? 'rank ' : 'r') + r, 2, y - high / 2 + 4);
      pen.fillStyle = limit && peak > limit ? theme.get('fault') : theme.get('dim');
      pen.fillText(
          (this.left > 60 && !isInBytes(this.unit) ? 'most ' : '') + this.text(peak),
          this.right + 6, y - high / 2 + 4);
    });
    this.base.setAttribute('aria-label', `Memory by rank: at most ${this.text(this.peak)}`);
  }
}

class Traffic extends Chart {
  constructor(host, clock) { super(host, clock, 126); }

  /**
   * Bytes, or messages if they have no bytes, that all ranks begin to send in each slot of time.
   */
  show(answer, data) {
    const costs = answer.request?.costs, time = timeUnit(costs, data.seconds);
    Object.assign(this, {
      data,
      bytes: [costs?.activation_bytes, costs?.weight_bytes].flat().some(size => size > 0),
      options: {axis: time.text, unit: time.unit}
    });
    // As long as a forward or several, so that what repeats with them fills slots evenly.
    const step = firstTime(data) || roundStep(data.seconds / 100 || 1);
    this.slot = step * roundStep(Math.max(1, data.seconds / step / 600));
    const count = Math.ceil(data.seconds / this.slot) || 1;
    this.slots = new Float64Array(count);
    for (let i = 0; i < data.op.length; ++i) {
      const amount = this.bytes                           ? data.bytes[i] :
          data.op[i] === SEND || isCollective(data.op[i]) ? 1 :
                                                            0;
      const slot = Math.floor(data.start[i] / this.slot + 1e-4);
      if (amount) this.slots[Math.min(count - 1, slot)] += amount;
    }
    this.peak = Math.max(...this.slots);
    const at = this.slots.indexOf(this.peak),
          text = this.bytes ? bytesText(this.peak) : plural(this.peak, 'message');
    byId('traffic-note').textContent = this.peak === 0 ?
        'This plan sends nothing.' :
        `Most at once: ${text}, at ${time.say(at * this.slot)}, in a slot of ` +
            `${time.text(this.slot)}. ` +
            (this.bytes ? '' : 'Counted in messages, as no sizes were given.');
    this.paint();
  }

  draw(pen) {
    const base = this.height - 22, top = 12;
    Object.assign(this, {top, axisTop: base});
    paintTicks(this, pen);
    pen.fillStyle = theme.get('lane');
    pen.fillRect(this.left, top, this.right - this.left, base - top);
    pen.fillStyle = theme.get('communication');
    this.slots.forEach((amount, k) => {
      const x0 = Math.max(this.x(k * this.slot), this.left),
            x1 = Math.min(this.x((k + 1) * this.slot), this.right);
      const high = amount / (this.peak || 1) * (base - top - 4);
      if (amount && x1 > x0) pen.fillRect(x0, base - high, Math.max(x1 - x0 - 0.6, 0.6), high);
    });
    pen.fillStyle = theme.get('dim');
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'left';
    pen.fillText(this.bytes ? bytesText(this.peak) : '' + this.peak, this.right + 6, top + 10);
    this.base.setAttribute('aria-label', 'Sent over time. ' + byId('traffic-note').textContent);
  }
}
