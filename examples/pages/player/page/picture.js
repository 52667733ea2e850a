// A timeline as a file: PNG, which is its canvas, or SVG, by a pen that writes what a canvas draws.

const inXml = text => text.replace(/[&<>"]/g, letter => `&#${letter.charCodeAt(0)};`);

/** What timeline_paint.js and timeline_cells.js use of a canvas' context. */
class SvgPen {
  out = [];
  groups = [];  // opened since each save()
  count = 0;    // of names
  globalAlpha = 1;

  put(tag, members, inside = '') {
    const words = Object.entries(members).map(
        ([name, value]) => ` ${name}="${inXml('' + (value.toFixed ? +value.toFixed(2) : value))}"`);
    this.out.push(`<${tag}${words.join('')}>${inside}</${tag}>`);
  }
  fillRect(x, y, width, height) {
    const fill = this.fillStyle.name ? `url(#${this.fillStyle.name})` : this.fillStyle;
    this.put('rect', {x, y, width, height, fill, 'fill-opacity': this.globalAlpha});
  }
  fillText(text, x, y) {
    const anchor = this.textAlign === 'center' ? 'middle' : 'start';
    const members = {x, y, fill: this.fillStyle, style: 'font:' + this.font, 'text-anchor': anchor};
    this.put('text', members, inXml(text));
  }
  beginPath() { this.path = ''; }
  moveTo(x, y) { this.path += `M${x.toFixed(2)} ${y}`; }
  lineTo(x, y) { this.path += `L${x.toFixed(2)} ${y}`; }
  rect(x, y, wide, high) { this.path += `M${x} ${y}h${wide}v${high}h${- wide}z`; }
  stroke() {
    const members = {stroke: this.strokeStyle, 'stroke-width': this.lineWidth, fill: 'none'};
    this.put('path', {d: this.path, ...members});
  }
  clip() {
    const id = 'part' + this.count++;
    this.put('clipPath', {id}, `<path d="${this.path}"/>`);
    this.out.push(`<g clip-path="url(#${id})">`);
    ++this.groups[this.groups.length - 1];
  }
  save() { this.groups.push(0); }
  restore() {
    this.out.push('</g>'.repeat(this.groups.pop()));
    this.globalAlpha = 1;
  }
  setTransform() {}
  clearRect() {}
  drawImage(image, left, top, width, height, ...[x, y, wide, high]) {
    const part = el('canvas', {width, height});
    part.getContext('2d').drawImage(image, -left, -top);
    const members = {x, y, width: wide, height: high, preserveAspectRatio: 'none'};
    this.put('image', {...members, href: part.toDataURL()});
  }
  /** Makes the pattern that hatchOf() draws: slanted lines, in the tile's colour. */
  createPattern(tile) {
    const {strokeStyle, lineWidth} = tile.getContext('2d'), n = tile.width;
    const id = 'hatch' + this.count++, patternUnits = 'userSpaceOnUse';
    const lines = `<path d="M${- n} ${n}L0 0M0 ${n}L${n} 0M${n} ${n}L${2 * n} 0" stroke="${
        strokeStyle}" stroke-width="${lineWidth}"/>`;
    const setTransform = ({e}) => this.put(
        'pattern', {id, patternUnits, width: n, height: n, patternTransform: `translate(${e})`},
        lines);
    return {name: id, setTransform};
  }
}

/** The part of a timeline that is in view. */
function svgOf(line, title) {
  const pen = new SvgPen(), {width, height} = line, size = `width="${width}" height="${height}"`;
  paintTimeline(Object.create(line, {base: {value: {getContext: () => pen}}}), false);
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${width} ${height}">` +
      `<title>${inXml(title)}</title><rect ${size} fill="${theme.get('card')}"/>` +
      pen.out.join('\n') + '</svg>\n';
}

function saveAs(name, blob) {
  const href = URL.createObjectURL(blob);
  el('a', {href, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

function showPictureButtons() {
  const name = () => document.title.replace(/ ·.*/, '').replace(/[^\w]+/g, '-');
  byId('svg').onclick = () => saveAs(
      name() + '.svg', new Blob([svgOf(line, titleOf(state.answer))], {type: 'image/svg+xml'}));
  byId('png').onclick = () => {
    const {width, height} = line.base, paper = el('canvas', {width, height});
    const pen = paper.getContext('2d');
    pen.fillStyle = theme.get('card');
    pen.fillRect(0, 0, width, height);
    pen.drawImage(line.base, 0, 0);
    paper.toBlob(blob => saveAs(name() + '.png', blob));
  };
}
