"""Plans of plangrad in Python: made, edited, verified, simulated, shown and trained.

Each method runs a program of build/bin, so Python's standard library is enough; with pandas, tables
are DataFrames. See first_plans.ipynb. Not here: what the words of a plan mean (chapter 06)."""
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the clone
COMPARED = ("makespan", "bubble", "live_versions", "peak_microbatches", "staleness", "drift",
            "ranks", "stages", "per_step", "steps")

IN_PYTHON = (  # what programs say, and what it is here: rows for lines, arguments for flags
    (r"(?m)^error: | \(--help lists the flags\)|\s+$", ""), (r"--plan \S+/plan\b", "this plan"),
    (r"(standard input|\S+/plan): plan, line 1\b", "the header"),
    (r"(standard input|\S+/plan): plan, line (\d+)", lambda line: f"row {int(line[2]) - 2}"),
    (r"--([a-z]+(?:-[a-z]+)*)( (?=-?\d))?",
     lambda flag: flag[1].replace("-", "_") + ("=" if flag[2] else "")))


class PlanError(ValueError):
    """A program rejected a plan or an argument. `rule`, `rank` and `cell` (a word of its row) say
    which rule the plan breaks and where; they are None where it is something else."""
    rule = rank = cell = None

    def __init__(self, said):
        for words, here in IN_PYTHON:
            said = re.sub(words, here, said)
        super().__init__(said)
        broken = r"(?m)^(?:.* each other|([a-z ]+)): rank (\d+)(?:,| is at) (?:(\S+)[:,] )?"
        if found := re.search(broken, said):
            self.rule, self.rank, self.cell = found[1] or "hang", int(found[2]), found[3]


def program(name):
    """Finds a program: in the folder PLANGRAD_BIN if that is set, else in build/bin or on PATH."""
    chosen, built = os.environ.get("PLANGRAD_BIN"), str(ROOT / "build" / "bin")
    found = shutil.which(name, path=chosen or built + os.pathsep + os.environ.get("PATH", ""))
    if not found:
        raise FileNotFoundError(f"there is no program {name} in {chosen or built}; build it by "
                                f"{ROOT}/examples/quickstart.sh, or set PLANGRAD_BIN to its folder")
    return found


def _plan(*words, text=None):
    """Runs a command of `plan`, of which JSON about a wrong plan is an answer, too."""
    done = subprocess.run([program("plan"), *words], input=text, capture_output=True, text=True)
    if done.returncode and not done.stdout:
        raise PlanError(done.stderr)
    return done.stdout


def _flags(values):
    """Makes words of keywords: --forward 1,2 of forward=[1, 2], and --endless of endless=True."""
    text = {key: ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            for key, value in values.items() if value is not None and value is not False}
    return [word for key, value in text.items()
            for word in ("--" + key.replace("_", "-"), value) if word != "True"]


def _table(rows):
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows).set_index(next(iter(rows[0])))


def plan(schedule, **flags):
    """Makes a schedule's plan: `plan("2bw", stages=4, microbatches=8)`; flags as in `plan show`."""
    return Plan(_plan("show", "--schedule", schedule, *_flags(flags)), schedule, flags)


class Plan:
    """A plan: its `header`, and its `rows`, a list of words for each rank, which can be edited."""

    def __init__(self, text, schedule=None, flags=None):
        lines = [line.split("#")[0].strip() for line in text.splitlines()]
        self.header, *rows = filter(None, lines)
        self.rows = [row.split() for row in rows]
        self.flags, self._made = flags or {}, (str(self), schedule)

    @classmethod
    def from_rows(cls, rows, **header):
        """Makes a plan of rows, each a list of words or a text; `plan lower` completes rows that
        have no updates. What the header does not say is counted: `stages`, `steps` (updates) and
        `per_step` (microbatches of an update)."""
        rows = [row if isinstance(row, str) else " ".join(row) for row in rows]
        forwards = re.findall(r"\b(\d+)F(\d+)v", " ".join(rows))
        updates = len(set(re.findall(r"\b\d+Sv(\d+)", " ".join(rows))))
        micros = len({micro for _, micro in forwards})
        counted = {"stages": len({stage for stage, _ in forwards}),
                   "per_step": micros // max(updates, 1), "steps": max(updates, 1)}
        first = " ".join(f"{key} {value}" for key, value in {**counted, **header}.items())
        text = "\n".join([first] + [row or "-" for row in rows])
        return cls(text if updates else _plan("lower", "-", text=text))

    def __str__(self):
        return "\n".join([self.header] + [" ".join(row) or "-" for row in self.rows]) + "\n"

    @property
    def schedule(self):
        """The name of the schedule that made the plan; None if it is another one, or edited."""
        return self._made[1] if str(self) == self._made[0] else None

    def _command(self, name, *words, **costs):
        named = ["--schedule", self.schedule, *_flags(self.flags)] if self.schedule else ["-"]
        text = None if self.schedule else str(self)
        return _plan(name, *named, *words, *_flags(costs), text=text)

    def facts(self, **costs):
        """Returns what `plan simulate --json` prints; `costs` are its flags, such as forward=2."""
        facts = json.loads(self._command("simulate", "--json", **costs))
        if facts["verified"]:
            return facts
        error = PlanError(facts["message"])
        error.rule = facts["rule"]  # also where it is broken on no rank
        raise error

    def verify(self):
        """Checks the plan against every rule and returns it, or raises PlanError."""
        return self.facts() and self

    def simulate(self, **costs):
        """Returns a table of each rank's seconds, and of the most versions of the weights and
        microbatches' activations that it keeps."""
        facts = self.facts(**costs)
        kept = zip(facts["live_versions"], facts["peak_microbatches"], facts["breakdown"]["ranks"])
        rows = [{"rank": rank, "versions": versions, "microbatches": micros, **seconds}
                for rank, (versions, micros, seconds) in enumerate(kept)]
        return _table([{key: row[key] for key in row if key != "other"} for row in rows])

    def compare(self, other, **costs):
        """Returns a table of this plan and another one, or the schedule of that name: by the same
        flags, and where these say no size, with this plan's stages, ranks, microbatches and
        updates. The last columns say the sizes. Of numbers that each rank has, it shows the largest."""
        sides = [(self.schedule or "this", self.facts(**costs))]
        if isinstance(other, str):
            words = "compare", "-", other, "--json", *_flags({**self.flags, **costs})
            sides += [(other, json.loads(_plan(*words, text=str(self)))["b"]["facts"])]
        else:
            sides += [(other.schedule or "other", other.facts(**costs))]
        return _table([{"plan": name, **{key: max(facts[key]) if isinstance(facts[key], list) else
                                         facts[key] for key in COMPARED}} for name, facts in sides])

    def _repr_html_(self):
        """Shows the plan player's page; that of a wrong plan shows where it stops."""
        with tempfile.TemporaryDirectory() as folder:
            self._command("draw", out=folder + "/plan.html")
            page = html.escape(Path(folder, "plan.html").read_text())
        return f'<iframe srcdoc="{page}" title="plan player" width="100%" height="720"></iframe>'

    def train(self, data, steps=200, **flags):
        """Trains a GPT by this plan on the text in the file `data`, and yields the numbers of each
        update while it runs: step, loss, seconds, ... The flags are those of train_gpt: layers,
        width, batch, ...; out, which names a new folder, keeps the run's files. An edited plan
        trains as it is: made without clip and tied, it takes clip=0 and untied=True."""
        with tempfile.TemporaryDirectory() as folder, open(folder + "/log", "w+") as log:
            Path(folder, "plan").write_text(str(self))
            layout = {**self.flags, **dict.fromkeys(("endless", "first", "clip", "tied"))}
            layout["schedule"] = self.schedule
            flags = {**(layout if self.schedule else {"plan": folder + "/plan"}),
                     "data": data, "steps": steps, "out": folder + "/run", **flags}
            metrics, seen, ended = Path(flags["out"], "metrics.jsonl"), 0, False
            if metrics.exists():
                raise PlanError(f"{metrics.parent} holds another run; name a new folder")
            run = subprocess.Popen([program("train_gpt"), *_flags(flags)], stderr=log,
                                   stdout=subprocess.DEVNULL)
            try:
                while not ended:
                    ended = run.poll() is not None
                    text = metrics.read_text() if metrics.exists() else ""
                    lines = text.split("\n")[seen:-1]  # the last one is not complete
                    seen += len(lines)
                    yield from (line for line in map(json.loads, lines) if "loss" in line)
                    time.sleep(0 if ended else 0.05)
                if run.returncode:
                    raise PlanError(Path(log.name).read_text())
            finally:  # also where the reader stops early
                run.terminate()
                run.wait()
