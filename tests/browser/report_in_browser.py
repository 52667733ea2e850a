#!/usr/bin/env python3
"""Pages of short runs in Chromium: report_in_browser.py TRAIN_GPT REPORT

They load without errors and without the network, have contrast in both themes, and fit a phone;
their charts can be read with keys and as tables; numbers of one name are equal; timelines tell of
their cells. The pages: the report of a pipeline that is resumed, complete and profiled; of 40
replicas that prune, encode and were stopped; of one that still runs; and the comparison of the
first two.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402
from pages import PAINTED, Checks, skip_without_chromium  # noqa: E402

MODEL = "--layers 2 --heads 2 --width 16 --context 16 --vocab chars".split()
PIPELINE = "--ranks 2 --stages 2 --microbatches 2 --batch 4 --steps 6 --profile".split()
PIPELINE += ["--note", "<!--<script>"]  # as if a script began within the page's data
MANY = ("--schedule data --ranks 40 --batch 40 --steps 9 --stop-after 8 --codec quantize:4 "
        "--prune 0.5 --prune-after 5 --samo").split()

TOLD = "document.querySelector('.selected').textContent"
ALL_UPDATES = """[...document.querySelectorAll('button')]
  .find(each => /^updates? [0-9]/.test(each.textContent)).click()"""
# How many charts are not one stop of the Tab key, and how many have no table.
CHARTS = """(charts => [
  charts.filter(chart => chart.matches('[tabindex="0"]') +
      chart.querySelectorAll('[tabindex="0"]').length !== 1).length,
  charts.filter(chart => !chart.closest('section').querySelector('details.numbers')).length
])([...document.querySelectorAll('.bars, .chart, .timeline')])"""
# Arrows go on in a chart's parts and on its slider, and its table has rows when it is opened.
KEYS = """(async () => {
  const table = document.querySelector('details.numbers');
  for (const [name, key] of [['.bars [role=img]', 'ArrowRight'], ['[role=slider]', 'ArrowLeft']])
    document.querySelector(name).dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
  table.open = true;
  await new Promise(done => table.addEventListener('toggle', done, {once: true}));
  const {ariaValueMax, ariaValueNow} = document.querySelector('[role=slider]');
  return [document.querySelectorAll('.bars [role=img]')[1].tabIndex, ariaValueMax - ariaValueNow,
          table.querySelectorAll('tr').length > 0];
})()"""
# Rows whose share of idle time is not that of their hatching, whether cells are faded, and rows of
# one update whose share has the name of those of all that were recorded.
IDLE = """(() => {
  const rows = [];
  fade = ({data, options}, pen, rank, isOther) => {
    const inside = x => Math.min(Math.max(x, 0), data.seconds), cells = [...data.computes[rank]];
    const drawn = sum(cells.map(i => inside(data.end[i]) - inside(data.start[i]))) / data.seconds;
    rows.push([Math.abs(1 - drawn - options.idle[rank]) > 0.005, cells.some(isOther),
               options.idleName === 'idle']);
  };
  [...document.querySelectorAll('button')].find(each => each.textContent === 'same scale').click();
  return [0, 1, 2].map(what => rows.some(row => row[what]));
})()"""
TICKS = """[...document.querySelectorAll('section')].find(each => each.innerText.startsWith('Loss'))
  .querySelector('.chart').textContent.split('update')[0]"""
# For each run, whether its training loss is bold, and the loss.
LOSSES = """[...document.querySelectorAll('.runs tr')].find(
    each => each.textContent.startsWith('training loss')).querySelectorAll('td').values().map(
        each => [!!each.querySelector('b'), parseFloat(each.textContent)]).toArray()"""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s failed: %s" % (" ".join(words), done.stderr))


def running(report):
    """The page as it was while the run went on."""
    with open(report, encoding="utf-8") as file:
        text = file.read()
    assert '"state":"finished"' in text
    with open(report.replace("report.html", "running.html"), "w", encoding="utf-8") as file:
        file.write(text.replace('"state":"finished"', '"state":"running"'))
    return file.name + "#reload=no"


def timelines(checks, page, when):
    """Keys go from cell to cell of the measured timeline; Enter tells what its plan was."""
    found = page.evaluate("document.querySelectorAll('.timeline').length")
    checks.equal("timelines " + when, found, 2)
    page.evaluate("document.querySelectorAll('.timeline')[1].focus()")
    for _ in range(4):  # a cell's end may be the beginning of a gap
        page.key("ArrowRight")
        page.key("Enter")
        page.evaluate(PAINTED)
        told = page.evaluate(TOLD)
        if told:
            break
    checks.check(told.startswith("rank 0: ") and " than simulated" in told, "%s: a cell tells %r" %
                 (when, told))
    page.evaluate(ALL_UPDATES)  # the same cell, which is no longer compared with its update's begin
    again = page.evaluate(TOLD)
    checks.check(again.split(";")[0] == told.split(";")[0] and " than simulated" not in again,
                 "%s: of all updates it tells %r" % (when, again))


def readable_by_keys(checks, page, when):
    checks.equal("charts without keys or a table " + when, page.evaluate(CHARTS), [0, 0])
    checks.equal("keys in charts " + when, page.evaluate(KEYS), [0, 1, True])


def numbers_agree(checks, page, name, when):
    text = page.evaluate("document.body.innerText")
    titles = page.evaluate("[document.title, document.querySelector('h1').textContent]")
    checks.check(all(title.startswith(name + ": ") for title in titles), "%s: %s" % (when, titles))
    checks.check("\nmade by " in text, when + ": nothing says what made it")
    checks.check("“Other” is idle time" in text, when + ": nothing says what “other” is")
    checks.check("with each stage’s median costs" in text, when + ": plan.html has other words")
    checks.check(name != "many" or "is partitioned once" in text, when + ": no word of ZeRO 2")
    simulated = re.findall(r"(?:update took the|update measured,) (\S+) \S+ (?:that are )?simulated",
                           text)
    a, b = (float(seconds) for seconds in simulated)
    checks.check(0.99 < a / b < 1.01, "%s: simulated updates take %g and %g" % (when, a, b))
    checks.equal("other idle times, and faded cells " + when, page.evaluate(IDLE),
                 [False, True, False])
    head, mean, measured = page.evaluate("""(({bars: {measured: ranks}}) => [
        idleFigure({...data.summary.bubble, steady_state: 0}, shownWindow()).textContent.startsWith(
            `ranks idle in ${updatesOf(shownWindow())}, which fill`),
        sum(ranks.map(idleShare)) / ranks.length, data.summary.bubble.measured])(shownWindow())""")
    checks.check(head and abs(mean - measured) < 0.005, "%s: ranks are idle for %g, the head: %g" %
                 (when, mean, measured))
    if name == "many":
        checks.check("“+39” stands for 39 more ranks" in text, "no 39 more ranks " + when)
    else:
        checks.check(page.evaluate(TICKS).endswith("123456"), "the axis of updates " + when)


def comparison(checks, page, when):
    page.emulate(400, 800, page.dark)
    top = page.evaluate("document.querySelector('section .runs').getBoundingClientRect().top")
    first = page.evaluate("document.querySelector('section h2').textContent")
    checks.check(first == "What was asked for" and top < 400, "%s: first is %s" % (when, first))
    losses = page.evaluate(LOSSES)
    bold = [loss for is_bold, loss in losses if is_bold]
    checks.equal("the better loss, bold, " + when, bold, [min(loss for _, loss in losses)])
    sent = page.evaluate("bytes(data.runs[0].metrics.bytes_sent.at(-1))")  # of an update
    checks.check(page.evaluate("document.body.innerText").count(sent) > 1,
                 "%s: the table and the chart of a resumed run lack %s" % (when, sent))


def main():
    skip_without_chromium()
    train, report = sys.argv[1:]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        data = ["--data", os.path.join(root, "BUILDING.md")]
        pipeline, many = (os.path.join(folder, name) for name in ("a run", "many"))
        run(train, *data, *MODEL, *PIPELINE, "--stop-after", "2", "--out", pipeline)
        run(train, "--resume", pipeline)
        run(train, *data, *MODEL, *MANY, "--out", many)
        both = os.path.join(folder, "both.html")
        run(report, pipeline, many, "--out", both)
        pages = [os.path.join(path, "report.html") for path in (pipeline, many)]
        for path in [*pages, running(pages[0]), both]:
            for dark in False, True:
                page, theme = browser.page(dark=dark), "dark" if dark else "light"
                when = "%s, %s" % (os.path.relpath(path, folder), theme)
                page.navigate(path)
                checks.readable(page, when)
                readable_by_keys(checks, page, when)
                if path in pages:
                    numbers_agree(checks, page, os.path.basename(os.path.dirname(path)), when)
                    timelines(checks, page, when)
                if path == both:
                    comparison(checks, page, when)
                checks.prints(page, when, ".bar span, .legend i, .run i")
                for width in 400, 2560:
                    checks.narrow(page, when, width)
                checks.quiet(page, when)
                page.close()
    checks.end("report_in_browser")


if __name__ == "__main__":
    main()
