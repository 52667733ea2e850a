// Units: numbers as text, small helpers for elements, and models with which memory is in bytes.
'use strict';

/** Makes an element: el('p', {className: 'dim'}, 'text', child). */
function el(tag, members = {}, ...children) {
  const made = Object.assign(document.createElement(tag), members);
  for (const [name, value] of Object.entries(members))
    if (name.includes('-') || name === 'for') made.setAttribute(name, value);
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}
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
    if (wait <= 0) run();
    else timer = setTimeout(run, wait);
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

const percent = share => (100 * share)
                             .toFixed(
                                 share !== 0 && share < 0.0995 ? 1 :
                                     share < 0.9995            ? 1 :
                                                                 0)
                             .replace(/\.0$/, '') +
    '%';
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
    return {
      unit: 'forwards',
      text: digits,
      say: s => digits(s) + (digits(s) === '1' ? ' forward' : ' forwards')
    };
  const [unit, per] = seconds < 2e-3 ? ['µs', 1e6] : seconds < 2 ? ['ms', 1e3] : ['s', 1];
  return {unit, text: s => digits(s * per), say: s => `${digits(s * per)} ${unit}`};
}

/**
 * Models in bytes. Weights and gradients have 2 bytes a parameter, Adam's state 12 (two moments and
 * a copy in 32 bits): Rajbhandari et al. 2020, "ZeRO", section 3.1. Activations of a layer have
 * T C (34 + 5 heads T / C) bytes a sequence: Korthikanti et al. 2022, equation 1.
 */
const models = {
  '124M':
      {name: 'GPT-2 124M', parameters: 124439808, layers: 12, width: 768, heads: 12, tokens: 1024},
  '1.5B': {
    name: 'GPT-2 1.5B',
    parameters: 1557611200,
    layers: 48,
    width: 1600,
    heads: 25,
    tokens: 1024
  },
};

/** Bytes of one stage of a model that is cut into `stages`: of each kind of holding. */
function stageBytes(model, stages, sequences) {
  const {layers, width, heads, tokens, parameters} = model;
  const input = 2 * tokens * width * sequences;
  const layer = tokens * width * (34 + 5 * heads * tokens / width) * sequences;
  return {
    weights: 2 * parameters / stages,
    sum: 2 * parameters / stages,
    optimizer: 12 * parameters / stages,
    activations: layer * layers / stages,
    input
  };
}
