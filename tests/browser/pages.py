"""What holds for every page: it loads by itself, can be read in both themes, and fits a phone."""
import base64
import re
import sys
import zlib

import browser

SKIPPED = 77  # the exit status that ctest counts as skipped

# Texts with less contrast to what is behind them than 4.5 to 1, which is WCAG's level AA. Colours
# are read from a canvas, which knows all of their notations; what is half transparent is blended.
CONTRAST = r"""(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const known = {};
  const read = color => known[color] ||= (() => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = 'transparent';
    canvas.fillStyle = color;  // the word none, which a figure may have, changes nothing
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  })();
  const over = (top, below) =>
      [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const behind = (element, layers = []) => {
    for (; element; element = element.parentElement)
      layers.push(read(getComputedStyle(element).backgroundColor));
    const canvas = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((below, top) => over(top, below), canvas);
  };
  const isShape = each => each.ownerSVGElement && !/^(text|tspan|g)$/.test(each.tagName) &&
      read(getComputedStyle(each).fill)[3] > 0.5 && getComputedStyle(each).opacity > 0.5;
  const shapeBehind = box => {  // of a figure's text
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const shape = document.elementsFromPoint(x, y).find(isShape);
    return shape ? read(getComputedStyle(shape).fill) : null;
  };
  const linear = x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = color => [0.2126, 0.7152, 0.0722]
      .reduce((sum, weight, k) => sum + weight * linear(color[k] / 255), 0);
  const found = new Map(), nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let node; (node = nodes.nextNode());) {
    const element = node.parentElement, words = node.textContent.trim();
    if (!words || element.closest(':disabled, script, style, option, title, desc')) continue;
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (box.width <= 1 || box.height <= 1) continue;  // for screen readers
    ++texts;
    const figure = element.closest('svg');
    const ground = (figure && shapeBehind(box)) || behind(figure || element);
    const color = [...read(figure ? style.fill : style.color)];
    for (let each = element; each; each = each.parentElement)
      color[3] *= getComputedStyle(each).opacity;
    const [a, b] = [light(over(color, ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = `${element.tagName.toLowerCase()}.${element.getAttribute('class') || ''}`;
    if (ratio < 4.5)
      found.set(name + color + ground, `"${words.slice(0, 40)}" (${name}) has ${ratio.toFixed(2)}`);
  }
  return {texts, faint: [...found.values()]};
})()"""

# What keeps a reader with a keyboard or a screen reader out: elements without a name or a value.
BARRIERS = """[
  ...document.querySelectorAll(':is([tabindex], [role=img], [role=slider]):not([aria-label]), ' +
      '[role=slider]:not([aria-valuenow]), dl p'),
  ...[...document.querySelectorAll('input:not([hidden]), select, textarea')].filter(
      each => !each.ariaLabel && !each.labels.length)
].map(each => each.outerHTML.slice(0, 80))"""

# The elements that reach beyond the window, without what they lie in.
WIDE = """[...document.querySelectorAll('body *')]
  .filter(each => each.getBoundingClientRect().right > innerWidth + 1 && !each.childElementCount)
  .slice(0, 5).map(each => `${each.tagName}#${each.id}.${each.className}`).join(', ')"""
PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Checks:
    """Collects what is wrong, so that a run tells all of it."""

    def __init__(self):
        self.wrong = []

    def check(self, holds, message):
        if not holds:
            self.wrong.append(message)
        return holds

    def equal(self, what, found, expected):
        self.check(found == expected, "%s: expected %r, got %r" % (what, expected, found))

    def quiet(self, page, when):
        """Nothing was written to the console as an error, and nothing was asked of the network."""
        self.equal("errors " + when, page.errors, [])
        self.equal("requests to the network " + when, page.requests, [])

    def readable(self, page, when):
        """Every visible text has contrast, with the whole page in view; what acts has a name."""
        high = page.evaluate("document.documentElement.scrollHeight")
        page.emulate(1400, min(high + 50, 16000), page.dark)
        found = page.evaluate(CONTRAST)
        self.check(found["texts"] > 10, "%s: only %d texts are visible" % (when, found["texts"]))
        for text in found["faint"][:20]:
            self.check(False, "%s: %s to 1, which is below 4.5" % (when, text))
        self.equal("barriers " + when, page.evaluate(BARRIERS), [])

    def narrow(self, page, when, width=400):
        """The page fits the width of a phone, or another one."""
        page.emulate(width, 800, page.dark)
        page.evaluate(PAINTED)
        wide = page.evaluate("document.documentElement.scrollWidth")
        self.check(wide <= width, "%s: the page is %d wide in a window of %d, because of %s" %
                   (when, wide, width, wide > width and page.evaluate(WIDE)))
        self.check(page.evaluate("""[...document.querySelectorAll('.drawn')].every(
            x => x.scrollWidth <= x.clientWidth)"""), "%s, %d wide: a cut chart" % (when, width))

    def prints(self, page, when, marks):
        """Marks have their colours on paper, though browsers print no backgrounds unless asked."""
        colors = page.evaluate("""[...new Set([...document.querySelectorAll('%s')].map(
            each => getComputedStyle(each).backgroundColor))]""" % marks)
        pdf = base64.b64decode(page.call("Page.printToPDF")["data"])
        text = b"".join(zlib.decompressobj().decompress(stream) for stream in re.findall(
            rb"/FlateDecode[^>]*>>\s*stream\r?\n(.*?)endstream", pdf, re.DOTALL))
        inks = {"rgb(%d, %d, %d)" % tuple(round(255 * float(part)) for part in ink)
                for ink in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg", text)}
        lost = [color for color in colors if color.startswith("rgb(") and color not in inks]
        self.check(len(colors) > 1 and not lost, "%s: %s has no %s" % (when, marks, lost))

    def end(self, name):
        for each in self.wrong:
            print(each)
        how = "%d things are wrong" % len(self.wrong) if self.wrong else "all is well"
        print("%s: %s" % (name, how))
        sys.exit(1 if self.wrong else 0)


def skip_without_chromium():
    """Ends a test where no Chromium can start, which says nothing about pages."""
    try:
        with browser.Browser() as chromium:
            chromium.page()
    except browser.BrowserError as error:
        print("skipped: %s" % error)
        sys.exit(SKIPPED)
