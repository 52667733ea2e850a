#!/usr/bin/env python3
"""The report of a short run in Chromium: report_in_browser.py TRAIN_GPT

It loads without errors and without the network, has contrast in both themes, and fits a phone.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402
from pages import Checks, skip_without_chromium  # noqa: E402

RUN = ("--ranks 2 --stages 2 --microbatches 2 --batch 4 --layers 2 --heads 2 --width 16 "
       "--context 16 --vocab chars --steps 6").split()


def main():
    skip_without_chromium()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        run = os.path.join(folder, "a run")
        done = subprocess.run([sys.argv[1], "--data", os.path.join(root, "BUILDING.md"), *RUN,
                               "--out", run], capture_output=True, text=True)
        if done.returncode:
            sys.exit("train_gpt failed: " + done.stderr)
        for dark in False, True:
            page, theme = browser.page(dark=dark), "dark" if dark else "light"
            page.navigate(os.path.join(run, "report.html"))
            checks.readable(page, theme)
            checks.narrow(page, theme)
            checks.quiet(page, theme)
            page.close()
    checks.end("report_in_browser")


if __name__ == "__main__":
    main()
