// Units: numbers as text, and small helpers for elements.
'use strict';

/** Makes an element: el('p', {className: 'dim'}, 'text', child). */
function el(tag, members = {}, ...children) {
  const made = Object.assign(document.createElement(tag), members);
  for (const [name, value] of Object.entries(members))
    if (name.includes('-') || name === 'for') made.setAttribute(name, value);
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}
/** Writes a number of things: "1 rank", "2 microbatches". */
const plural = (count, what) =>
    `${count} ` + (`${count}` === '1' ? what : `${what}s`.replace(/chs$/, 'ches'));
/** Runs an action at most every 70 ms, and once more at the end: for panels of many elements. */
function rarely(act) {
  let last = 0, timer = 0;
  return () => {
    clearTimeout(timer);
    const wait = last + 70 - performance.now();
    const run = () => {
      act();
      last = performance.now();
    };
    if (wait <= 0)
      run();
    else
      timer = setTimeout(run, wait);
  };
}

/**
 * Draws a panel when the moment of a clock has changed, or the plan, and not when the axis moves
 * alone. A panel that nobody sees is drawn when it is seen, or printed.
 */
function drawAtMoments(host, clock, draw) {
  let last = -1, plan = 0, seen = true;
  const run = rarely(() => seen && draw());
  clock.listen(() => {
    if (clock.now === last && clock.plan === plan) return;
    [last, plan] = [clock.now, clock.plan];
    run();
  });
  new IntersectionObserver(found => {
    seen = found.at(-1).isIntersecting;
    run();
  }).observe(host);
  addEventListener('beforeprint', draw);
}

const byId = id => document.getElementById(id);

const percent = share => (100 * share).toFixed(share < 0.9995 ? 1 : 0).replace(/\.0$/, '') + '%';
const digits = number =>
    Math.abs(number) >= 1e5 ? Math.round(number).toLocaleString('en') : '' + +number.toPrecision(4);

function bytesText(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let k = 0;
  for (; bytes >= 999.5 && k < units.length - 1; ++k) bytes /= 1000;
  return +bytes.toPrecision(3) + ' ' + units[k];
}

/**
 * Time as the page writes it: in forwards, if one takes a second, as it does unless one says so.
 */
function timeUnit(costs, seconds) {
  const forward = [].concat(costs?.forward ?? 1);
  if (forward.every(each => each === 1))
    return {unit: 'forwards', text: digits, say: s => plural(digits(s), 'forward')};
  const [unit, per] = seconds < 2e-3 ? ['µs', 1e6] : seconds < 2 ? ['ms', 1e3] : ['s', 1];
  return {unit, text: s => digits(s * per), say: s => `${digits(s * per)} ${unit}`};
}
