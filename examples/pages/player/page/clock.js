// Clock: the moment and the part of the time axis that all panels of a page show.

const calm = matchMedia('(prefers-reduced-motion: reduce)');

class Clock {
  /** seconds: where the axis ends */
  constructor(seconds) {
    this.listeners = [];
    this.plan = 0;  // counts the axes
    this.playing = false;
    this.end(seconds);
  }

  /** Begins anew with an axis of another length. */
  end(seconds) {
    this.seconds = Math.max(seconds, 1e-9);
    ++this.plan;
    this.now = 0;
    this.from = 0;
    this.to = this.seconds;
    this.tell('view');
  }

  /** listener(what): 'now' if only the moment has changed, 'view' otherwise; once in a frame */
  listen(listener) { this.listeners.push(listener); }

  tell(what) {
    this.told = this.told === 'view' ? 'view' : what;
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      const told = this.told;
      this.asked = this.told = undefined;
      for (const listener of this.listeners) listener(told);
    });
  }

  set(now) {
    this.now = Math.min(Math.max(now, 0), this.seconds);
    if (this.now >= this.from && this.now <= this.to) return this.tell('now');
    const wide = this.to - this.from;
    this.window(this.now - wide / 2, this.now + wide / 2);
  }

  /** Shows the axis between two moments. */
  window(from, to) {
    const wide = Math.min(Math.max(to - from, this.seconds * 1e-6), this.seconds);
    this.from = Math.min(Math.max(from, 0), this.seconds - wide);
    this.to = this.from + wide;
    this.tell('view');
  }

  zoom(factor, at = this.now) {
    if (at < this.from || at > this.to) at = (this.from + this.to) / 2;
    this.window(at - (at - this.from) / factor, at + (this.to - at) / factor);
  }

  pan(seconds) { this.window(this.from + seconds, this.to + seconds); }

  get zoomed() { return this.to - this.from < this.seconds * 0.999; }

  /** Plays on from the present moment: what is in view takes about 20 seconds. */
  play() {
    if (this.playing) return;
    this.playing = true;
    if (this.now >= this.seconds * 0.999) this.now = 0;
    let last = performance.now();
    const step = time => {
      if (!this.playing) return;
      const wait = calm.matches ? 700 : 0;  // steps instead of motion
      if (time - last >= wait) {
        const passed = (this.to - this.from) * (time - last) / 20000;
        last = time;
        if (this.now + passed >= this.seconds) this.playing = false;
        if (this.now + passed > this.to) this.pan((this.to - this.from) * 0.8);
        this.set(this.now + passed);
      }
      if (this.playing) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
    this.tell('now');
  }

  pause() {
    this.playing = false;
    this.tell('now');
  }
}
