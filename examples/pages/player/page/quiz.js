// Quiz: the numbers are hidden; the reader guesses the bubble from the picture, then sees it.

class Quiz {
  constructor(host, button, reveal) {
    Object.assign(this, {host, button, reveal, on: false});
    button.addEventListener('click', () => this.on ? this.stop() : this.begin());
  }

  show(state) {
    this.state = state;
    this.button.disabled = !state.answer.facts;
    if (this.on) this.begin();
  }

  begin() {
    this.on = true;
    document.body.classList.add('quizzing');
    this.button.setAttribute('aria-pressed', 'true');
    const guess = el(
        'input', {type: 'range', min: 0, max: 80, value: 0, 'aria-label': 'your guess in percent'});
    const said = el('output', {}, '0%');
    guess.addEventListener('input', () => said.textContent = guess.value + '%');
    this.host.hidden = false;
    this.host.replaceChildren(
        el('p', {},
           'Look at the picture. What share of their time are the ranks idle, all taken together?'),
        el('p', {className: 'line'}, guess, said,
           el('button',
              {type: 'button', className: 'main', onclick: () => this.tell(+guess.value / 100)},
              'that is my guess')));
    this.reveal(false);
  }

  tell(guess) {
    const {answer} = this.state, bubble = answer.facts.bubble, off = Math.abs(guess - bubble);
    this.end();
    const why = answer.formula && Math.abs(answer.formula.value - bubble) < 5e-4 &&
            answer.formula.letters !== '0' ?
        `${answer.formula.letters} = ${answer.formula.numbers}: ` +
            'the pipeline fills and drains in the time of the numerator, and computes in the rest.' :
        'Count the hatched parts of a row, and divide by its length; take the mean of all rows.';
    this.host.replaceChildren(
        el('p', {}, el('b', {}, `It is ${percent(bubble)}. `),
           off < 0.02     ? 'You have seen it.' :
               off < 0.08 ? `Close: you said ${percent(guess)}.` :
                            `You said ${percent(guess)}.`),
        el('p', {}, why), el('p', {}, game.level < 0 ? this.followUp() : ''));
  }

  /** What to find out next. */
  followUp() {
    const {facts} = this.state.answer, versions = greatest(facts.live_versions);
    return `Next: the fullest rank keeps the activations of ${greatest(facts.peak_microbatches)} ` +
        `forwards, and ${versions} version${versions > 1 ? 's' : ''} of the weights. Which of ` +
        'these would change with twice as many microbatches, and what would the bubble be? ' +
        'Decide, then move the slider and press “quiz” again.';
  }

  stop() {
    this.host.hidden = true;
    this.end();
  }

  /** Shows the numbers again. */
  end() {
    this.on = false;
    document.body.classList.remove('quizzing');
    this.button.setAttribute('aria-pressed', 'false');
    this.reveal(true);
  }
}
