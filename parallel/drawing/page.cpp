// Style and script of report pages. The style overrides the figures' colours, so that they suit a
// dark screen, too; the script turns titles into tips, and zooms and pans the timelines together.
// Chapter 06.
#include "parallel/drawing/chart.h"

namespace paragrad::parallel {

const char* const page_style = R"css(
:root { --page: #f4f6f8; --card: #fff; --ink: #1f2933; --dim: #5b6775; --line: #dde3ea;
        --lane: #eceff3; --faint: #f5f7f9; --accent: #2563a8; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --page: #10151c; --card: #19212b; --ink: #e3e9f0; --dim: #9ba8b6; --line: #2d3845;
          --lane: #242e3a; --faint: #1f2832; --accent: #7ab8ea; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 24px 60px; max-width: 1280px; background: var(--page);
       color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0 0 18px; font-size: 26px; font-weight: 650; letter-spacing: -.01em; }
h2 { margin: 0 0 10px; font-size: 16px; font-weight: 600; }
section { margin-bottom: 18px; padding: 16px 18px; background: var(--card);
          border: 1px solid var(--line); border-radius: 10px; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 10px;
         margin: 0 0 18px; }
.facts div { padding: 10px 14px; background: var(--card); border: 1px solid var(--line);
             border-radius: 10px; }
.facts dt { color: var(--dim); font-size: 12.5px; }
.facts dd { margin: 0; font-size: 17px; font-weight: 600; overflow-wrap: anywhere;
            font-variant-numeric: tabular-nums; }
.note { margin: -8px 0 18px; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: 13.5px;
        font-variant-numeric: tabular-nums; }
th, td { padding: 3px 14px 3px 0; text-align: left; white-space: nowrap; }
th { color: var(--dim); font-weight: 500; }
tr:first-child th { border-bottom: 1px solid var(--line); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(440px, 1fr)); gap: 18px; }
.charts section { margin: 0; }
.bar-of-tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 12px;
                color: var(--dim); font-size: 13px; }
button, select { padding: 3px 12px; font: inherit; color: var(--ink); background: var(--faint);
                 border: 1px solid var(--line); border-radius: 6px; cursor: pointer; }
button:hover, select:hover { border-color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
figure { margin: 0 0 16px; }
figure:last-child { margin-bottom: 0; }
figcaption { margin-bottom: 4px; font-size: 13.5px; font-weight: 600; }
svg { display: block; width: 100%; height: auto; font-variant-numeric: tabular-nums; }
.chart { max-width: 640px; }
.timeline .view { cursor: grab; touch-action: pan-y; }
.ink { fill: var(--ink); }
.paper { fill: none; }
.axis .ink, .chart .ink, .lanes .ink { fill: var(--dim); }
.grid { stroke: var(--line); }
.lane { fill: var(--lane); }
.lane.faint { fill: var(--faint); }
.cells { stroke: var(--card); }
.cells > * { vector-effect: non-scaling-stroke; }
.cells > .step { fill: var(--ink); stroke: var(--ink); }
.legend .step { fill: var(--ink); }
.cells > :hover, .bar:hover { filter: brightness(1.15) saturate(1.2); }
.mark { stroke: var(--ink); }
.strips rect:hover { fill: var(--ink); fill-opacity: .1; }
#tip { position: fixed; z-index: 1; max-width: 420px; padding: 7px 11px; pointer-events: none;
       white-space: pre-line; font-size: 13px; line-height: 1.45; color: #f3f6f9;
       background: #17202b; border: 1px solid #3a4757; border-radius: 7px;
       box-shadow: 0 4px 14px #0005; }
#tip::first-line { font-weight: 600; }
@media print { .bar-of-tools, #tip { display: none; } }
)css";

const char* const page_script = R"js(
'use strict';

// Tips: what the figures carry as titles, shown at once and with lines.
const tip = document.getElementById('tip');
for (const title of document.querySelectorAll('svg title')) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
document.addEventListener('pointermove', (event) => {
  const cell = event.target.closest('[data-tip]');
  tip.hidden = !cell;
  if (!cell) return;
  tip.textContent = cell.dataset.tip;
  const right = event.clientX + 16, below = event.clientY + 16;
  tip.style.left = Math.max(4, Math.min(right, innerWidth - tip.offsetWidth - 8)) + 'px';
  const above = event.clientY - tip.offsetHeight - 10;
  tip.style.top = (below + tip.offsetHeight < innerHeight ? below : above) + 'px';
});

// Timelines: one zoom and one start (in pixels of the zoomed figure) for all of them.
let zoom = 1, start = 0;
const figures = [...document.querySelectorAll('svg.timeline')].map((svg) => ({
  svg, part: (name) => svg.querySelector('.view > ' + name), width: +svg.dataset.width,
  labels: [...svg.querySelectorAll('.view > .labels > text')].map((text) => ({
    text, x: +text.dataset.x, width: +text.dataset.w, length: text.textContent.length })),
}));

function fontSize(width, length) {  // as timeline_figure.cpp does it
  return [11, 8].find((size) => width >= 0.6 * size * length + size / 4) || 0;
}

function draw() {
  for (const figure of figures) {
    figure.part('.cells').setAttribute('transform', `translate(${-start} 0) scale(${zoom} 1)`);
    figure.part('.cells').setAttribute('stroke-width', figure.svg.dataset.cell * zoom > 6 ? 1 : 0);
    const longest = Math.max(...figure.labels.map((label) => label.length));
    for (const label of figure.labels) {
      const x = label.x * zoom - start, size = fontSize(label.width * zoom, longest);
      const seen = size > 0 && x > -50 && x < figure.width + 50;
      label.text.setAttribute('visibility', seen ? 'visible' : 'hidden');
      if (!seen) continue;
      label.text.setAttribute('x', x);
      label.text.setAttribute('font-size', size);
    }
    drawAxis(figure);
  }
}

function drawAxis(figure) {
  const data = figure.svg.dataset, unit = data.scale * zoom / data.perSecond;  // pixels
  const rough = 90 / unit, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((digit) => digit * power >= rough) * power;
  let axis = '';
  for (let i = Math.ceil(start / unit / step); i * step * unit - start < figure.width; ++i) {
    const x = i * step * unit - start, number = +(i * step).toPrecision(6);
    const cut = x + 4 + 6.1 * `${number}`.length > figure.width;
    axis += `<path class="grid" d="M${x} ${data.top}V${+data.bottom + 6}"/>` +
            `<text class="ink" x="${cut ? x - 4 : x + 4}" y="${+data.bottom + 12}" ` +
            `text-anchor="${cut ? 'end' : 'start'}">${number}</text>`;
  }
  figure.part('.axis').innerHTML = axis;
}

let waiting = false;
function move(newZoom, newStart) {
  const widest = Math.max(...figures.map((figure) => figure.width));
  zoom = Math.min(Math.max(newZoom, 1), 2000);
  start = Math.min(Math.max(newStart, 0), widest * (zoom - 1));
  if (!waiting) requestAnimationFrame(() => { waiting = false; draw(); });
  waiting = true;
}
function zoomAt(factor, x) {  // x stays where it is
  const newZoom = Math.min(Math.max(zoom * factor, 1), 2000);
  move(newZoom, (start + x) * newZoom / zoom - x);
}

for (const figure of figures) {
  const pixels = (event) => {  // of the figure, from the axis on
    const box = figure.svg.getBoundingClientRect();
    const shrunk = figure.svg.viewBox.baseVal.width / box.width;  // on a narrow screen
    return (event.clientX - box.left) * shrunk - figure.svg.dataset.left;
  };
  let from = null;
  figure.svg.addEventListener('pointerdown', (event) => { from = pixels(event); });
  figure.svg.addEventListener('pointermove', (event) => {
    if (from === null || !event.buttons) return;
    move(zoom, start + from - pixels(event));
    from = pixels(event);
  });
  figure.svg.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomAt(Math.exp(-event.deltaY / 300), pixels(event));
  }, { passive: false });
  figure.svg.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowLeft') move(zoom, start - 80);
    else if (event.key === 'ArrowRight') move(zoom, start + 80);
    else if (event.key === '+') zoomAt(1.5, figure.width / 2);
    else if (event.key === '-') zoomAt(1 / 1.5, figure.width / 2);
    else return;
    event.preventDefault();
  });
}
for (const button of document.querySelectorAll('button[data-zoom]'))
  button.addEventListener('click', () =>
    +button.dataset.zoom ? zoomAt(+button.dataset.zoom, figures[0].width / 2) : move(1, 0));

// Memory: one rank at a time.
const choice = document.getElementById('rank');
function chooseRank() {
  for (const chart of document.querySelectorAll('[data-rank]'))
    chart.hidden = chart.dataset.rank !== choice.value;
}
if (choice) { choice.addEventListener('change', chooseRank); chooseRank(); }
)js";

}  // namespace paragrad::parallel
