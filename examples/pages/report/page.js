'use strict';
// What all parts of a report page share: elements, numbers with units, tips, and the choices of the
// reader, which a reload keeps.

const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');

function add(node, children) {
  for (const child of children.flat(Infinity))
    if (child || child === 0) node.append(child);
  return node;
}
function element(space, name, attributes, children) {
  const node = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on'))
      node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false)
      node.setAttribute(key, value);
  }
  return add(node, children);
}
const el = (name, attributes, ...children) => element('', name, attributes, children);
const svg = (name, attributes, ...children) =>
    element('http://www.w3.org/2000/svg', name, attributes, children);

// ---- numbers ----

/** Three digits, without idle zeros: 1.25, 12.5, 1 250 000. */
function digits(value, count = 3) {
  if (!Number.isFinite(value)) return 'not a number';
  if (value === 0) return '0';
  if (Math.abs(value) >= 1000)
    return Math.round(value).toLocaleString('en').replaceAll(',', '\u202f');
  if (Math.abs(value) < 1e-4) return value.toExponential(1).replace('.0e', 'e');
  return String(+value.toPrecision(count));
}
function withUnit(value, units, step) {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(+(value.toPrecision(3))) >= step) {
    value /= step;
    ++unit;
  }
  return `${digits(value)} ${units[unit]}`;
}
function seconds(value) {
  if (value >= 120) {
    const minutes = Math.floor(value / 60);
    return minutes >= 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` :
                           `${minutes} min ${Math.round(value % 60)} s`;
  }
  return value >= 1 ? `${digits(value)} s` :
      value === 0 ? '0 s' :
                    withUnit(value * 1e9, ['ns', 'µs', 'ms', 's'], 1000);
}
const bytes = (value) => value === 0 ? '0 B' : withUnit(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000);
const percent = (share) => `${+ (100 * share).toFixed(Math.abs(share) < 0.0995 ? 1 : 0)}%`;
const count = (value) => Math.round(value).toLocaleString('en').replaceAll(',', '\u202f');
const plural = (value, word) =>
    `${count(value)} ` + (value === 1 ? word : `${word}s`.replace(/chs$/, 'ches'));
const updatesOf = ({first, last}) =>
    first === last ? `update ${first}` : `updates ${first} to ${last}`;
const sum = (values) => values.reduce((all, value) => all + value, 0);

/** The nodes of a number and what stands below it. */
function figure(title, value, ...notes) {
  return el(
      'div', {class: 'figure'}, el('dt', {}, title), el('dd', {}, value),
      notes.map((note) => note && el('dd', {class: 'note'}, note)));
}

// ---- tables, and charts for those who use keys or do not see them ----

/** A part of the page that keys scroll where it is too wide. */
const scroller = (...content) =>
    el('div', {class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'table'}, content);

/** A chart's numbers as a table, made when it is opened. `rows()`: lists, with a name first. */
function asTable(rows) {
  const place = el('details', {class: 'numbers'}, el('summary', {}, 'as a table'));
  const line = ([name, ...cells]) =>
      el('tr', {}, el('th', {scope: 'row'}, name), cells.map((text) => el('td', {}, text)));
  place.addEventListener('toggle', () => {
    if (place.childElementCount < 2) place.append(scroller(el('table', {}, rows().map(line))));
  });
  return place;
}

/** Makes a chart one stop of the Tab key: arrows go from part to part and from row to row. */
function addKeys(chart, parts) {
  parts.forEach((part, i) => part.tabIndex = i ? -1 : 0);
  chart.addEventListener('keydown', (event) => {
    const {key, target} = event;
    const at = parts.indexOf(target), isElsewhere = (part) => part.parentNode !== target.parentNode;
    const next = {
      ArrowRight: () => parts[at + 1],
      ArrowLeft: () => parts[at - 1],
      ArrowDown: () => parts.slice(at).find(isElsewhere),
      ArrowUp: () => parts.slice(0, at).findLast(isElsewhere)
    }[key]?.();
    if (!next) return;
    target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    event.preventDefault();
  });
}

// ---- choices: in the address, so that a link and a reload keep them ----

const choices = new URLSearchParams(location.hash.slice(1));
function choose(key, value) {
  choices.set(key, value);
  try {
    history.replaceState(null, '', '#' + choices);
  } catch { /* a page without an address */
  }
}
const chosen = (key, otherwise) => choices.get(key) ?? otherwise;

/** Buttons of which one is pressed. `options`: [value, text]. */
function switcher(key, label, options, otherwise, onChange) {
  const group = el('span', {class: 'switch', role: 'group', 'aria-label': label});
  const known = options.some(([value]) => value === chosen(key, otherwise));
  const value = known ? chosen(key, otherwise) : otherwise;
  for (const [option, text] of options)
    group.append(
        el('button', {
          'aria-pressed': option === value,
          onclick: (event) => {
            for (const other of group.children)
              other.setAttribute('aria-pressed', other === event.target);
            choose(key, option);
            onChange(option);
          }
        },
           text));
  return group;
}
function selector(key, label, options, otherwise, onChange) {
  const onchange = () => {
    choose(key, list.value);
    onChange(list.value);
  };
  const list =
      el('select', {onchange}, options.map(([value, text]) => el('option', {value}, text)));
  list.value = chosen(key, otherwise);
  if (!list.value) list.value = otherwise;
  return el('label', {}, label + ' ', list);
}

// ---- panels, which are drawn again when their width changes ----

const drawings = [];
let chartName = '';  // of what is drawn at the moment: its panel's title
/** A card. `draw(width)` returns its changing content; what else is given stands above it. */
function panel(title, about, ...content) {
  return el('section', {}, el('h2', {}, title), about && el('p', {class: 'about'}, about), content);
}
/** A place whose content draw(width) makes. */
function drawn(draw, className = '') {
  const place = el('div', {class: 'drawn ' + className});
  const drawing = {
    place,
    width: 0,
    draw: () => {
      drawing.width = place.clientWidth;
      chartName = place.closest('section').querySelector('h2').textContent;
      if (drawing.width > 0)
        place.replaceChildren(...[draw(drawing.width)].flat(Infinity).filter(Boolean));
    }
  };
  drawings.push(drawing);
  place.redraw = drawing.draw;
  return place;
}
function watchWidths() {
  for (const drawing of drawings) drawing.draw();
  addEventListener('resize', () => {  // comes once a frame
    for (const drawing of drawings)
      if (drawing.place.clientWidth !== drawing.width) drawing.draw();
  });
}
const cssColor = (name) => `var(--${name.replaceAll(' ', '-')})`;
/** Parts of bars: each name with its colour, and that of text on it. */
const colored = (names, colors = names) =>
    names.map((name, i) => ({name, color: cssColor(colors[i]), ink: cssColor(colors[i] + '-ink')}));

function legend(parts) {
  return el(
      'ul', {class: 'legend'},
      parts.map(
          ({name, color, className}) =>
              el('li', {},
                 el('i', {class: className || '', style: color ? `background:${color}` : null}),
                 name)));
}

// ---- tips ----

const tip = document.getElementById('tip');
function showTip(text, x, y) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const right = x + 14, below = y + 14;
  tip.style.left = Math.max(4, Math.min(right, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top =
      (below + tip.offsetHeight < innerHeight ? below : Math.max(4, y - tip.offsetHeight - 10)) +
      'px';
}
const tipOf = (node) => node.closest && node.closest('[data-tip]');
document.addEventListener('pointermove', (event) => {
  const node = tipOf(event.target);
  if (node)
    showTip(node.dataset.tip, event.clientX, event.clientY);
  else if (!event.target.closest?.('.own-tip'))
    showTip('');
});
document.addEventListener('focusin', (event) => {
  const node = tipOf(event.target), box = node && node.getBoundingClientRect();
  showTip(node ? node.dataset.tip : '', box ? box.left : 0, box ? box.bottom : 0);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') showTip('');
});
