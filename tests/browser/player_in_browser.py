#!/usr/bin/env python3
"""The page of `plan draw --out x.html` in Chromium: player_in_browser.py PLAN

It loads without errors and without the network, has contrast in both themes, fits a phone, and
answers: a cursor that moves changes what ranks hold, an edit shows the verifier's sentence at the
cell, a link restores the plan; numbers of one name are equal; and the game's levels can be solved.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402
from pages import Checks, skip_without_chromium  # noqa: E402

READY = "document.documentElement.dataset.ready !== undefined"
SCHEDULE = ["--schedule", "2bw", "--stages", "4", "--microbatches", "4", "--steps", "3"]
MOST_SECONDS = 30  # to load, on a machine that is busy


def plan(program, *words, text=None):
    return subprocess.run([program, *words], input=text, capture_output=True, text=True)


def edit(page, text):
    """Types a text into the field."""
    page.evaluate("""(text => {
      const field = document.querySelector('#text textarea');
      field.focus();
      field.value = text;
      field.dispatchEvent(new Event('input', {bubbles: true}));
    })(%s)""" % json.dumps(text))


def opened(browser, address, **window):
    page = browser.page(**window)
    page.navigate(address)
    page.wait_until(READY)
    return page


def check_looks(checks, browser, address):
    for dark in False, True:
        page, theme = browser.page(dark=dark), "dark" if dark else "light"
        seconds = page.navigate(address)
        page.wait_until(READY)
        checks.check(seconds < MOST_SECONDS, "%s: %.1f s to load" % (theme, seconds))
        checks.readable(page, theme)
        checks.prints(page, theme, ".chip, .legend i")
        for width in 400, 1400, 2560:
            checks.narrow(page, theme, width)
            seen = page.evaluate("""[...document.querySelectorAll('#controls .choices > *')]
                .filter(each => each.checkVisibility() &&
                                each.getBoundingClientRect().right <= innerWidth).length""")
            checks.check(seen >= 4, "%s, %d wide: %d controls are visible" % (theme, width, seen))
        checks.quiet(page, theme)
        page.close()


def check_together(checks, browser, file):
    """Controls, numbers and timeline are in view together; the numbers stay when one scrolls."""
    page = opened(browser, file)
    page.evaluate("ask({schedule: '1f1b', stages: 4, microbatches: 8})")
    ends = page.evaluate("""['#controls .choices', '#numbers', '#timeline'].map(
        name => document.querySelector(name).getBoundingClientRect().bottom)""")
    checks.check(0 < min(ends) and max(ends) < 900, "controls, numbers, timeline end at %r" % ends)
    page.evaluate("scrollTo({top: 400, behavior: 'instant'})")
    checks.equal("top of the numbers", page.evaluate("byId('numbers').getBoundingClientRect().y"),
                 0)
    page.evaluate("ask({schedule: '1f1b', stages: 64, microbatches: 64})")
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    end = page.evaluate("byId('play').getBoundingClientRect().bottom")
    checks.check(end < 900, "the tools of 64 ranks end at %r" % end)
    checks.quiet(page, "with 64 ranks")
    page.close()


# The bubble of the present plan, as each part of the page has it.
BUBBLES = """(() => {
  const row = name => [...byId('table').querySelectorAll('tr')]
      .find(each => each.children[0].firstChild.textContent === name)?.children[1].textContent;
  const [big, more] = byId('numbers').querySelectorAll('.secret');
  const idle = line.options.idle;
  const {data} = state, mean = list => list.reduce((a, b) => a + b, 0) / list.length;
  const cells = Array.from(data.computes, row => 1 -
      row.reduce((all, i) => all + data.end[i] - data.start[i], 0) / data.seconds);
  const drawn = [row('bubble'), percent(mean(idle)), percent(Math.max(0, mean(cells)))];
  if (more) drawn.push(more.textContent.split(' ')[0]); else drawn.push(big.textContent);
  const said = byId('formula').textContent.match(/Here it is ([\\d.]+%)/);
  if (said) drawn.push(said[1]);
  quiz.begin();
  const walk = document.createTreeWalker(byId('numbers').parentNode, NodeFilter.SHOW_TEXT);
  const shown = [byId('timeline').getAttribute('aria-label')];
  for (let node; (node = walk.nextNode());)
    if (!node.parentElement.closest('.secret')) shown.push(node.textContent);
  const answer = new RegExp('(^|[^\\\\d.])' + row('bubble').replace('.', '[.]'));
  const told = row('bubble') === '0%' ? [] : shown.filter(text => answer.test(text));
  quiz.tell(0.5);
  drawn.push(byId('asked').innerText.match(/It is ([\\d.]+%)/)[1]);
  quiz.stop();
  return {drawn, told, long: more ? [big.textContent, row('steady: bubble')] : []};
})()"""


def choose(page, schedule, more="{}"):
    """Chooses a schedule where 1F1B was, perhaps an endless one."""
    page.evaluate("""controls.request = {schedule: '1f1b', stages: 4, microbatches: 8, ...%s},
        controls.schedule('%s'), ask(controls.request)""" % (more, schedule))


def check_bubbles(checks, page):
    """One plan, one bubble: in the large number, the table, rows, the picture and the quiz."""
    for schedule in page.evaluate("page.schedules"):
        for endless in (False, True)[:1 + schedule["has_order"]]:
            choose(page, schedule["name"], "{endless: true}" if endless else "{}")
            name = schedule["name"] + endless * ", endless"
            asked = page.evaluate("state.answer.facts && [state.request.schedule, "
                                  "!!state.request.endless]")
            if not checks.check(asked == [schedule["name"], endless], name + " is not shown"):
                continue
            found = page.evaluate(BUBBLES)
            checks.check(len(set(found["drawn"])) == 1 and len(set(found["long"])) <= 1 and
                         len(found["long"]) == 2 * endless,
                         "%s: numbers differ: %r" % (name, found))
            checks.equal(name + ": what the quiz gives away", found["told"], [])


def check_plan_of_run(checks, program, page):
    """From a run's plan on, each schedule is tried with the run's layout and what fits of its costs."""
    layout = ["--stages", "2", "--data-parallel", "2", "--microbatches", "3", "--tied"]
    request = {"plan": plan(program, "show", "--schedule", "1f1b", *layout).stdout,
               "costs": {"forward": [1, 2], "backward": [2, 4], "step": [0.1, 0.2, 0.3]},
               "of": {"schedule": "1f1b", "stages": 2, "data_parallel": 2, "microbatches": 3,
                      "tied": True, "steps": 1}}
    for name in page.evaluate("page.schedules.map(each => each.name)"):
        page.evaluate("""controls.timer = 0, controls.show(%s),
            controls.schedule('%s'), ask(controls.request)""" % (json.dumps(request), name))
        checks.check(page.evaluate("!!state.answer.facts"),
                     name + ": instead of a run's plan: " + page.evaluate("controls.said.textContent"))
        if name == "2bw":
            checks.equal("layout of 2bw instead of a run's plan", page.evaluate(
                "[state.request.stages, state.request.data_parallel, state.request.microbatches,"
                " state.request.costs.forward]"), [2, 2, 3, [1, 2]])


def check_overlaps(checks, page):
    """A schedule that fills across updates opens with as many that its bubble is smaller."""
    names = [each["name"] for each in page.evaluate("page.schedules") if each["overlaps"]]
    checks.check({"2bw", "paci", "zb-h2"} <= set(names), "only these overlap: %r" % names)
    for name in names:
        choose(page, name)
        bubble, steps = page.evaluate("[state.answer.facts.bubble, state.request.steps]")
        page.evaluate("ask({schedule: '1f1b', stages: 4, microbatches: 8, steps: %d})" % steps)
        flush = page.evaluate("state.answer.facts.bubble")
        checks.check(steps >= 3 and bubble < flush,
                     "%s: %.3f in %d updates, 1f1b: %.3f" % (name, bubble, steps, flush))


def check_way_back(checks, page):
    """What another schedule lacks or changes comes back after it; sliders reach where they were."""
    page.evaluate("ask({schedule: '1f1b', stages: 4, microbatches: 8})")
    for name, sizes in (("data", [4, 8]), ("cyclic-v1", [0, 0]), ("cyclic-v2", [0, 0]),
                        ("1f1b", [1, 8])):
        page.evaluate("controls.schedule('%s'), ask(controls.request)" % name)
        found = page.evaluate("[state.request.data_parallel ?? 0, state.request.microbatches ?? 0]")
        checks.equal("replicas and microbatches of " + name, found, sizes)
    for stages in 64, 32:
        page.evaluate("ask({schedule: '1f1b', stages: %d, microbatches: 4})" % stages)
    page.evaluate("document.querySelector('[data-control=endless] input').click()")
    page.wait_until("titleOf(state.answer).includes('endless; the part between')")
    checks.equal("the slider's end", page.evaluate(SLIDER % "stages" + ".max"), "64")


def check_pictures(checks, page):
    """SVG and PNG are the timeline as it is drawn; a link of a file says where it opens."""
    page.evaluate("ask({schedule: '2bw', stages: 4, microbatches: 4, steps: 3})")
    page.evaluate("saveAs = (name, blob) => window.saved = {name, blob, type: blob.type}")
    for kind, begin in ("svg", "<svg"), ("png", "\x89PNG"):
        page.evaluate("window.saved = null; byId('%s').click()" % kind)
        page.wait_until("window.saved !== null")
        checks.check(page.evaluate("saved.name").endswith("." + kind), "no name of " + kind)
        text = page.evaluate("saved.blob.arrayBuffer().then("
                             "data => String.fromCharCode(...new Uint8Array(data).slice(0, 4)))")
        checks.equal("the file's begin", text, begin)
    found = page.evaluate("""(() => {
      const read = new DOMParser().parseFromString(svgOf(line, 'a<b'), 'image/svg+xml');
      const count = name => read.getElementsByTagName(name).length;
      return [count('parsererror'), count('rect'), count('text')];
    })()""")
    cells = page.evaluate("state.data.computes.reduce((all, row) => all + row.length, 0)")
    checks.check(found[0] == 0 and min(found[1:]) > cells, "%d cells: %r" % (cells, found))
    page.evaluate("byId('link').click()")
    page.wait_until("byId('link').innerText.includes('this machine only')")
    page.evaluate("page.made = {command: 'plan draw', version: '1.2'}, showMade(), clock.set(1)")
    page.wait_until("byId('now').innerText === 'at 1 forward' && byId('made').innerText === "
                    "'this page was made by plan draw, plangrad 1.2'")
    found = page.evaluate("""['waiting', ''].map(name => (byId('title').parentNode.className = name,
        document.querySelector('.loading').checkVisibility()))""")
    checks.equal("a line while the page loads, and then", found, [True, False])
    costs = page.evaluate("controls.list({x: [4.59012e-5, 2]}, 'x', 'x', true).innerHTML")
    checks.check('size="11"' in costs, "costs in a box: " + costs)


def check_cursor(page):
    """A drag over the timeline moves all panels, at the next frame or the one after it."""
    panels = ["document.querySelector('%s').innerText" % name for name in ("#now", "#holds")]
    box = page.evaluate("""(box => [box.x, box.y, box.width])(
        document.querySelector('#timeline canvas').getBoundingClientRect())""")
    before = [page.evaluate(panel) for panel in panels]
    places = [box[0] + box[2] * share for share in (0.3, 0.5, 0.7)]
    page.mouse("mouseMoved", places[0], box[1] + 20)
    page.mouse("mousePressed", places[0], box[1] + 20, buttons=1)
    for x in places[1:]:
        page.mouse("mouseMoved", x, box[1] + 20, buttons=1)
    page.mouse("mouseReleased", places[-1], box[1] + 20)
    for panel, text in zip(panels, before):
        page.wait_until("%s !== %s" % (panel, json.dumps(text)))


def check_edit(checks, browser, program, page):
    """A word less in the text: the page says what the verifier says, at the cell."""
    text = plan(program, "show", *SCHEDULE).stdout
    broken = text.replace("0p0<0 ", "", 1) if "0p0<0 " in text else text.replace(" 1F0v0", "", 1)
    error = json.loads(plan(program, "verify", "-", "--json", text=broken).stdout)
    edit(page, broken)
    page.wait_until("document.querySelector('#timeline .fault') !== null")
    said = page.evaluate("document.querySelector('#timeline .fault').innerText")
    sentence = error["message"].split("\n")[0].removeprefix(error["rule"] + ": ")
    checks.check(sentence in said and error["rule"] in said,
                 "the page says %r, the verifier %r" % (said, error["message"]))
    if error["index"] >= 0:
        page.wait_until("document.querySelectorAll('#text .bad').length === 1")
    page.wait_until("location.hash.length > 3")
    link, title = page.evaluate("[location.href, document.title]")
    restored = opened(browser, link)
    restored.wait_until("document.querySelector('#timeline .fault') !== null")
    restored.wait_until("document.title === %s" % json.dumps(title))
    checks.equal("its fault", restored.evaluate(
        "document.querySelector('#timeline .fault').innerText"), said)
    checks.quiet(restored, "of the page of a link")
    edit(page, text)
    page.wait_until("document.querySelector('#timeline .fault') === null")


def check_answer_stays(checks, page):
    """A question's answer stays when another plan comes, and is the new plan's."""
    page.evaluate("document.querySelectorAll('#asks button')[1].click()")
    page.evaluate("ask({schedule: '2bw', stages: 6, microbatches: 6, steps: 3})")
    said = page.evaluate("document.querySelector('#asked').innerText")
    checks.check("All 6 microbatches" in said, "the answer about versions is %r" % said)


def check_holds(checks, page):
    """What ranks hold is the new plan's, also at the moment at which the old one was."""
    for request, held in (("schedule: '1f1b', microbatches: 4", "waits for gradient 0 of rank 1"),
                          ("schedule: 'gpipe', microbatches: 8", "forward 7 on v0")):
        page.evaluate("ask({%s, stages: 4, costs: {backward: [2]}}).then(() => clock.set(7.5))"
                      % request)
        time.sleep(0.2)  # panels of many elements are drawn every 70 ms
        said = page.evaluate("byId('holds-title').textContent + byId('holds').innerText")
        checks.check("at 7.5 forwards" in said and held in said, "%r lacks %r" % (said, held))


def check_memory(checks, page):
    """The module says of memory what the page holds of its own plan, in each unit."""
    peaks = []
    for request in "page.plans[0].request", "{...page.plans[0].request, title: 'asked'}":
        page.evaluate("ask(%s)" % request)
        for choice in "['versions', 8]", "['gpt3-xl', 1]", "['gpt3-xl', 32]":
            page.evaluate("{const [unit, many] = byId('memory-choice').children;"
                          "[unit.value, many.value] = %s; unit.onchange();}" % choice)
            page.wait_until("memory.unit in state.answer.memory")
            peaks.append(page.evaluate("memory.peaks"))
    checks.equal("peaks of memory", peaks[3:], peaks[:3])
    checks.equal("peaks in versions", peaks[0], [2, 2, 2, 2])
    checks.check(peaks[1] < peaks[2], "32 sequences need no more than 1: %r" % peaks[1])


def check_numbers(checks, page):
    """The page's numbers of operations are the library's, and it shows each kind of holding."""
    names = page.evaluate("[FORWARD, BACKWARD, UPDATE, DROP, SEND, RECEIVE, REDUCE, FOLD, NORM, "
                          "GATHER, INPUT_PART, WEIGHT_PART].map(op => state.answer.ops[op])")
    checks.equal("operations", " ".join(names), "forward backward update drop send receive reduce "
                 "fold norm gather backward, input part backward, weight part")
    shown = set()
    replicas = ("schedule: 'data', data_parallel: 4, microbatches: 8, steps: 2, zero: %d, "
                "costs: {latency: 0.5}")
    for request in ("schedule: '1f1b', stages: 4, microbatches: 4, recompute: true",
                    "schedule: 'cyclic-v2', stages: 4, steps: 3",
                    "schedule: 'cyclic-v2', stages: 4, setting: 'zero', steps: 3",
                    *(replicas % level for level in (1, 2, 3))):
        page.evaluate("ask({%s})" % request)
        shown |= set(page.evaluate("""(() => {
          const {answer, holdings: {held}} = state;
          for (let i = 0; i < held.rank.length; ++i) clock.set(held.start[i]), holds.update();
          return [...new Set(held.hold)].map(number => answer.holds[number]);
        })()"""))
    missing = set(page.evaluate("state.answer.holds")) - shown
    checks.check(not missing, "no plan has a holding of %s" % missing)


def check_explanations(checks, page):
    """What is said of a bubble follows from the plan's costs; a reduction is named as a cause."""
    asked = "[...document.querySelectorAll('#asks button')].map(each => each.innerText)"
    for request, said in (
            ("schedule: '1f1b', microbatches: 8, costs: {backward: [2]}", "make it smaller"),
            ("schedule: '1f1b', microbatches: 8, slow_rank: 2, slow_factor: 3", "Rank 2 computes"),
            ("schedule: 'data', data_parallel: 4, costs: {latency: 0.3}", "sum of gradients of")):
        page.evaluate("ask({%s, stages: %d, steps: 2})" % (request, 4 if "1f1b" in request else 1))
        page.evaluate("document.querySelectorAll('#asks button')[0].click()")
        answer = page.evaluate("byId('asked').innerText")
        checks.check(said in answer, "%r lacks %r" % (answer, said))
    for setting, there in ("", True), ("setting: 'one-device',", False):
        page.evaluate("ask({schedule: 'cyclic-v2', stages: 4, %s steps: 3})" % setting)
        checks.equal("the round dance is asked about",
                     "Why a round dance?" in page.evaluate(asked), there)


def check_moved(checks, page):
    """A picture that was moved along its axis is the one that is painted there."""
    page.evaluate("clock.window(4, 16)")
    page.evaluate("new Promise(requestAnimationFrame)")
    for seconds in 3.3, -1.2, 0.7:
        page.evaluate("clock.pan(%f)" % seconds)
        page.evaluate("new Promise(requestAnimationFrame)")
    different = page.evaluate("""(() => {
      const {base} = line, read = () =>
          base.getContext('2d').getImageData(0, 0, base.width, base.height).data;
      const moved = read();
      line.paint();
      return read().filter((value, i) => Math.abs(value - moved[i]) > 60).length;
    })()""")
    checks.check(different < 400, "%d values of the moved picture differ" % different)


SLIDER = "[...document.querySelectorAll('#controls label')].find(" \
    "label => label.textContent.startsWith('%s ')).querySelector('input')"


def check_sliders(checks, page):
    """A slider stays under the pointer and keeps the focus while plans come and go."""
    page.evaluate("ask({schedule: '1f1b', stages: 4, microbatches: 4, steps: 3})")
    slider = SLIDER % "microbatches"
    box = page.evaluate("(box => [box.x, box.y + box.height / 2, box.width])"
                        "((%s).getBoundingClientRect())" % slider)
    begin = box[0] + box[2] * 3 / 31
    page.mouse("mouseMoved", begin, box[1])
    page.mouse("mousePressed", begin, box[1], buttons=1)
    for share in (0.3, 0.5, 0.7, 0.9):
        page.mouse("mouseMoved", box[0] + box[2] * share, box[1], buttons=1)
        time.sleep(0.2)  # for the answer
    page.mouse("mouseReleased", box[0] + box[2] * 0.9, box[1])
    page.wait_until("state.request.microbatches > 26")
    page.evaluate("ask({schedule: '1f1b', stages: 4, microbatches: 4, steps: 3})")
    page.evaluate("(%s).focus()" % slider)
    for _ in range(4):
        page.key("ArrowRight")
        time.sleep(0.05)
    page.wait_until("state.request.microbatches === 8")
    checks.check(page.evaluate("document.activeElement === %s" % slider),
                 "the slider of microbatches has lost the focus")


def check_given(checks, page):
    """A field that pages rarely show is there where a request has it, and can be taken out."""
    put = "(input => { input.value = '%s'; input.dispatchEvent(new Event('%s')); })(%s)"
    for given, slider, value, field in (("cuts: [1]", "stages", 3, "cuts"),
                                        ("codec: 'quantize:4'", "replicas", 1, "codec"),
                                        ("costs: {slowness: [1, 1, 1, 2]}", "stages", 3,
                                         "slowness")):
        page.evaluate("ask({schedule: '1f1b', stages: 2, data_parallel: 2, microbatches: 2, %s})"
                      % given)
        page.evaluate(put % (value, "input", SLIDER % slider))
        error = "(state.answer.error?.message || controls.said.textContent)"
        page.wait_until("%s.includes('%s')" % (error, field))
        box = "document.querySelector('[data-control=\"list of %s\"] input')" % field
        page.evaluate(put % ("", "change", box))
        page.wait_until(error + " === ''")
        checks.equal("value of the slider " + slider, page.evaluate(SLIDER % slider + ".value"),
                     str(value))


def check_words(checks, page):
    """Each word of a plan's header has a meaning; the words that are explained are the plan's."""
    page.evaluate("ask({schedule: '1f1b', stages: 2, microbatches: 2})")
    shown = page.evaluate("""(() => {
      const words = state.answer.text.split(/\\s+/);
      return [...document.querySelectorAll('#text .key code')].map(
          each => words.includes(each.textContent) ? each.parentNode.textContent : null);
    })()""")
    checks.check(None not in shown, "the plan lacks words of the key: %r" % shown)
    checks.equal("the first one's meaning", shown[0],
                 "1F1v0 forward of microbatch 1 on stage 1, with weights of version 0. ")
    for request in ("schedule: '1f1b', data_parallel: 2, microbatches: 2, first: 2, tied: true, "
                    "clip: true, codec: 'quantize:4', channel: 'quantize:4'",
                    "schedule: 'cyclic-v2', setting: 'zero', gap: 3"):
        page.evaluate("ask({stages: 4, steps: 2, %s})" % request)
        unknown = page.evaluate("""(() => {
          const told = document.querySelector('#text .key').textContent;
          const [header] = state.answer.text.split('\\n');
          return header.split(' ').filter((word, i) => i % 2 === 0 && !told.includes(word + ' '));
        })()""")
        checks.equal("words without a meaning", unknown, [])


def check_long_requests(checks, page):
    """A request that takes long says so, and gives way to the next one."""
    page.evaluate("void ask({schedule: '1f1b', stages: 2000, microbatches: 200, steps: 1})")
    page.wait_until("controls.said.textContent.startsWith('Computing')")
    time.sleep(1)
    page.evaluate("ask({schedule: '1f1b', stages: 2, microbatches: 2, steps: 1})")
    page.wait_until("state.request.stages === 2 && controls.said.textContent === ''")


# What solves each level of the game: by level, what words become.
MOVES = [
    [("1B0v0 1F2v0", "1F2v0 1B0v0")],
    [("0F3v0 0B0v0", "0B0v0 0F3v0"), ("1F3v0 1B0v0 1B1v0 1B2v0", "1B0v0 1B1v0 1B2v0 1F3v0")],
    [("0B1v0 0Sv1 0F2v1 0F3v1 0B2v1 0B3v1", "0F2v0 0B1v0 0Sv1 0F3v0 0B2v0 0B3v0")],
    [("0Sv1 0F4v0 0F5v0", "0Sv1"), ("0W0v0", "0W0v0 0F4v0"), ("0W1v0", "0W1v0 0F5v0"),
     ("1Sv1 1F4v0", "1Sv1"), ("1W0v0", "1W0v0 1F4v0")],
]
SCORE = "byId('score').textContent"
# What is said of each level's bubble: an order of words that makes it, or what ranks wait for.
SAID = ["Rank 1 could run the forward of microbatch 2 on stage 1 from 3 on",
        "the gradient has to come back", "must read the new weights",
        "Rank 0 could run the forward of microbatch 4 on stage 0 from 14 on"]


def check_game(checks, browser, file):
    """Each level begins unsolved and is solved by a few words; the link and the page keep it."""
    page = opened(browser, file + "#break")
    page.evaluate("var shown = [], of = show; show = (r, plan) => of(r, plan, shown.push(r.game))")
    checks.equal("what the link shows first", page.evaluate("begin().then(() => shown)"), [0])
    for level, moves in enumerate(MOVES):
        page.evaluate("game.begin(%d)" % level)
        checks.check("Not there yet" in page.evaluate(SCORE), "level %d begins solved" % level)
        text = page.evaluate("planText.field.value")
        page.evaluate("document.querySelector('#asks button').click()")
        said = page.evaluate("byId('asked').innerText")
        checks.check(SAID[level] in said and "microbatches an update" not in said
                     and "at updates" not in said, "level %d: %r" % (level, said))
        if level == 0:
            edit(page, text.replace("0F1v0 ", "").replace("0B0v0", "0B0v0 0F1v0"))
            page.wait_until("document.querySelector('#timeline .fault')?.innerText.includes("
                            "'rank 1 is at 1F1v0, which needs 0F1v0 of rank 0')")
        edit(page, text.replace("1F1v0", "1Q1v0", 1))
        page.wait_until("planText.verdict.textContent.endsWith("
                        "': 1Q1v0 is no word of a plan; did you mean 1F1v0?')")
        edit(page, text.replace("1F1v0", "hello", 1))  # nearer to no word
        page.wait_until("planText.verdict.className === 'error'"
                        " && !planText.verdict.textContent.includes('did you mean')")
        edit(page, text.replace("0F1v0", "0B9v0"))
        page.wait_until("byId('score').className === 'error'")
        page.wait_until("document.querySelector('#text .bad')?.textContent === '0B9v0'")
        for old, new in moves:
            checks.check(old in text, "level %d lacks %s: %s" % (level, old, text))
            text = text.replace(old, new, 1)
        edit(page, text)
        page.wait_until("!%s.includes('rule')" % SCORE)
        checks.check("Solved." in page.evaluate(SCORE), "level %d: %s" % (
            level, page.evaluate(SCORE)))
    page.wait_until("game.known[3].some(each => each.name === 'zb-v')")
    names = "[...document.querySelectorAll('#chart tr')].map(row => row.innerText).join()"
    page.wait_until("document.querySelector('#chart details').open = true, "
                    "%s.includes('zb-v') && %s.includes('your plan')" % (names, names))
    axis = page.evaluate("[...document.querySelectorAll('#chart text')].map(each => "
                         "each.textContent).filter(text => text.endsWith('%'))")
    checks.check(all(float(text[:-1]) % 5 == 0 for text in axis), "the chart's axis: %r" % axis)
    said = page.evaluate("byId('chart').innerText")
    page.evaluate("document.querySelector('#chart svg').focus()")
    page.key("ArrowRight")
    checks.check(page.evaluate("byId('chart').innerText") != said, "arrows name no dot")
    checks.readable(page, "the game")
    checks.narrow(page, "the game")
    restored = browser.page(dark=True)
    restored.navigate(page.evaluate("location.href"))
    restored.wait_until("game.level === 3")
    checks.equal("the link's text", restored.evaluate("planText.field.value"), text)
    checks.equal("solved levels", restored.evaluate("game.solved.size"), len(MOVES))
    checks.readable(restored, "the game, dark")
    for each in page, restored:
        checks.quiet(each, "in the game")
        each.close()


def check_links(checks, browser, file):
    """A link that is damaged is said to be, and the page shows its own plan."""
    for link in "#%", "#p=xx", "#AAAA":
        page = opened(browser, file + link)
        said = page.evaluate("controls.said.textContent")
        checks.check("no plan that can be read" in said, "of the link %s: %r" % (link, said))
        checks.quiet(page, link)
        page.close()


def main():
    program = sys.argv[1]
    skip_without_chromium()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        file = os.path.join(folder, "a plan.html")
        done = plan(program, "draw", *SCHEDULE, "--out", file)
        if done.returncode:
            sys.exit("plan draw failed: " + done.stderr)
        check_looks(checks, browser, file)
        check_together(checks, browser, file)
        page = opened(browser, file, height=3000)
        time.sleep(0.1)  # what is in view is known after a frame
        check_cursor(page)
        for check in (check_moved, check_memory, check_bubbles, check_overlaps, check_way_back,
                      check_pictures, check_holds, check_numbers, check_sliders, check_given,
                      check_words, check_explanations, check_long_requests):
            check(checks, page)
        check_edit(checks, browser, program, page)  # opens a page in front of this one
        check_answer_stays(checks, page)
        check_plan_of_run(checks, program, opened(browser, file))
        check_links(checks, browser, file)
        check_game(checks, browser, file)
        checks.quiet(page, "after all of this")
    checks.end("player_in_browser")


if __name__ == "__main__":
    main()
