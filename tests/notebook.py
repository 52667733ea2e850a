#!/usr/bin/env python3
"""tutorials/python in use: notebook.py BIN, the folder of the built programs. plangrad.py is tried,
then first_plans.ipynb is run as a reader does; without Debian's packages for that, the exit status
is 77, which ctest counts as skipped."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tutorials" / "python"
PYTHON = "/usr/bin/python3"  # whose packages are Debian's
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER))
sys.modules["pandas"] = None  # as where it is not installed
from plangrad import Plan, PlanError, plan  # noqa: E402


def error_of(work):
    try:
        work()
    except (PlanError, FileNotFoundError) as error:
        return error


os.environ["PLANGRAD_BIN"] = "/absent"
assert "quickstart.sh" in str(error_of(lambda: plan("2bw")))
os.environ["PLANGRAD_BIN"] = os.path.abspath(sys.argv[1])
two = plan("2bw", stages=2, microbatches=2, steps=2)
assert two.verify() is two and str(Plan.from_rows(two.rows, keep=2)) == str(two)
assert [row["versions"] for row in two.simulate(forward=[1, 1], backward=2)] == [2, 2]
late, flushed = plan("2bw", stages=2, microbatches=2).compare("1f1b", backward=2)
assert late["staleness"] == 1 and late["makespan"] < flushed["makespan"], (late, flushed)
three = Plan(str(plan("gpipe", stages=2, data_parallel=2, microbatches=3, steps=2)))
for row in three.compare("1f1b"):
    assert [row[key] for key in ("ranks", "stages", "per_step", "steps")] == [4, 2, 6, 2], row
two.rows[1][two.rows[1].index("1B2v0")] = "1B2v1"
broken = error_of(two.verify)
assert (broken.rule, broken.rank, broken.cell) == ("same version", 1, "1B2v1"), broken
assert "<iframe" in two._repr_html_() and "1B2v1" in two._repr_html_()
assert Plan.from_rows(["0F0v0 0B0v0", ["1F0v0", "1B0v0"]]).verify().rows[1][0] == "0a0<0"
assert str(error_of(Plan("stages 1 per_step 1 steps 1\n0X0v0").verify)).startswith("row 0: ")
circle = error_of(lambda: Plan.from_rows(["0B0v0 0F0v0", "1F0v0 1B0v0"]))
assert (circle.rule, circle.rank, circle.cell) == ("hang", 0, "0B0v0"), circle
unknown = error_of(lambda: Plan.from_rows(["0F0v0 1B0v0", "1F0v0 0B0v0"]))
assert (unknown.rule, unknown.rank, unknown.cell) == ("stash", 0, "1B0v0"), unknown
assert str(error_of(lambda: plan("1f1b", chunks=2))).startswith("chunks=2: the schedule 1f1b")

with tempfile.TemporaryDirectory() as folder:
    text = Path(folder, "text.txt")
    text.write_text("so it was said, and so it was done. " * 300)
    small = dict(vocab="chars", layers=1, heads=1, width=8, context=8, batch=4)
    made = plan("gpipe", stages=2, microbatches=2, clip=True, tied=True)
    for each in made, Plan(str(made)):  # as a schedule, and as a plan of one's own
        assert [update["step"] for update in each.train(text, 3, **small)] == [1, 2, 3]
    stream = made.train(text, 100000, **small)
    assert next(stream)["step"] == 1
    stream.close()  # ends the run
    assert str(error_of(lambda: list(made.train(text, width=-1)))).startswith("width: expected")

    needs = [PYTHON, "-c", "import nbconvert, ipykernel, pandas"]
    if not os.path.exists(PYTHON) or subprocess.run(needs, capture_output=True).returncode:
        print("skipped: install python3-nbconvert, python3-ipykernel and python3-pandas")
        sys.exit(77)
    words = ["--execute", "--to", "notebook", "--output-dir", folder, FOLDER / "first_plans.ipynb"]
    subprocess.run([PYTHON, "-m", "nbconvert", *words], check=True)
    shown = Path(folder, "first_plans.ipynb").read_text().split('"outputs"', 1)[1]
    for part in "<iframe", "same version: rank 1, 1B8v1", "2bw 50 ":
        assert part in shown, part
