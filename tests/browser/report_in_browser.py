#!/usr/bin/env python3
"""Pages of short runs in Chromium: report_in_browser.py TRAIN_GPT REPORT

They load without errors and without the network, have contrast in both themes, and fit a phone; a
report's timelines tell of their cells. The pages: the report of a pipeline that is complete and
profiled; of 40 replicas that prune, encode and were stopped; of one that still runs; and the
comparison of the first two.
"""
import os
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
  .find(each => each.textContent.startsWith('updates ')).click()"""


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s failed: %s" % (" ".join(words), done.stderr))


def running(report):
    """The page as it was while the run went on."""
    with open(report, encoding="utf-8") as file:
        text = file.read()
    assert '"state":"finished"' in text
    path = report.replace("report.html", "running.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace('"state":"finished"', '"state":"running"'))
    return path


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
    checks.check(told.startswith("rank 0: ") and " than planned" in told, "%s: a cell tells %r" %
                 (when, told))
    page.evaluate(ALL_UPDATES)  # the same cell, which is no longer compared with its update's begin
    again = page.evaluate(TOLD)
    checks.check(again.split(";")[0] == told.split(";")[0] and " than planned" not in again,
                 "%s: of all updates it tells %r" % (when, again))


def main():
    skip_without_chromium()
    train, report = sys.argv[1:]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        data = ["--data", os.path.join(root, "BUILDING.md")]
        pipeline, many = (os.path.join(folder, name) for name in ("a run", "many"))
        run(train, *data, *MODEL, *PIPELINE, "--out", pipeline)
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
                if path in pages:
                    timelines(checks, page, when)
                checks.narrow(page, when)
                checks.quiet(page, when)
                page.close()
    checks.end("report_in_browser")


if __name__ == "__main__":
    main()
