#!/usr/bin/env python3
"""Takes a picture of a page in headless Chromium:

  tests/browser/shot.py build/plan.html out.png --width 400 --dark --script 'document.title'

The script runs after the page is loaded, before the picture is taken; its value is printed as JSON.
Errors of the page and its requests to the network are printed, and then the exit status is 1.
"""
import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, BrowserError  # noqa: E402

# Counts the pictures that the page paints while it moves.
FRAMES = """new Promise(done => {
  const start = performance.now(); let frames = 0, longest = 0, last = start;
  const tick = now => {
    frames += 1; longest = Math.max(longest, now - last); last = now;
    if (now - start < %f * 1000) requestAnimationFrame(tick);
    else done({frames_per_second: 1000 * frames / (now - start), longest_ms: longest});
  };
  requestAnimationFrame(tick);
})"""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("page", help="a file, also with #link, or an address")
    options.add_argument("picture", help="the PNG file to write")
    options.add_argument("--width", type=int, default=1400)
    options.add_argument("--height", type=int, default=900)
    options.add_argument("--full", action="store_true", help="the whole page")
    options.add_argument("--dark", action="store_true", help="the user prefers dark pages")
    options.add_argument("--touch", action="store_true", help="a phone's screen")
    options.add_argument("--script", action="append", default=[],
                         help="JavaScript to run; repeatable")
    options.add_argument("--key", action="append", default=[],
                         help="then press a key, like ArrowRight")
    options.add_argument("--click", action="append", default=[], help="then click at X,Y")
    options.add_argument("--wait", type=float, default=0.3, help="seconds before the picture")
    options.add_argument("--fps", type=float, default=0, help="count frames for so many seconds")
    flags = options.parse_args()
    with Browser() as browser:
        page = browser.page(flags.width, flags.height, flags.dark, flags.touch)
        print("loaded in %.2f s" % page.navigate(flags.page))
        for script in flags.script:
            print(json.dumps(page.evaluate(script), ensure_ascii=False))
        for place in flags.click:
            page.click(*map(float, place.split(",")))
        for key in flags.key:
            page.key(key)
        if flags.fps:
            print(json.dumps(page.evaluate(FRAMES % flags.fps)))
        time.sleep(flags.wait)
        wide = page.evaluate("document.documentElement.scrollWidth")
        page.screenshot(flags.picture, flags.full)
        if wide > flags.width:
            print("the page scrolls sideways: it is %d wide" % wide)
        for error in page.errors:
            print("error: " + error)
        for request in page.requests:
            print("request: " + request)
        return 1 if page.errors or page.requests else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrowserError as error:
        sys.exit("shot.py: " + str(error))
