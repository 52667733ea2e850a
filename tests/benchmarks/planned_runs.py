#!/usr/bin/env python3
"""Updates of plans that `plan search` predicts, against runs of `train_gpt`, as a Markdown table.

One run is measured first. From its costs a search predicts all plans of a GPT for eight devices.
Some of them are drawn: schedule first, then depth and width, then microbatches, ZeRO,
recomputation and cuts. Each is run by --plan-from.

Devices and links are pretended, so that two cores are enough: a rank sleeps until its stage's
forward, backward or update has taken what the layers below take, and messages wait as if each pair
of ranks had a link of the machine below. Everything else is real: the engine, its messages, and
the search, which knows of the layers only what the first run has measured. Each plan is run twice
at the same time, and the faster run counts, as what else a machine does only makes runs longer.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCKS, WIDTH, CONTEXT, VOCABULARY, BATCH, DEVICES = 6, 16, 8, 11, 16, 8
LATENCY, BANDWIDTH = 0.003, 300000  # of a link, in seconds and bytes per second
# Its memory is fast enough not to count: what it takes is in proportion to examples.
MACHINE = f"""machine pretended
device memory 1e12 bandwidth 1e18 peak.f32 1e12
hosts {DEVICES} devices
link wire between devices of a host {BANDWIDTH} B/s {LATENCY} s
"""

# What a pretended device takes: seconds of a forward of one example, in the embedding, a block's
# attention and MLP, and so on to the head. A backward takes twice as long, an update a time for
# each parameter.
SHARE = (8 * WIDTH + 4 * CONTEXT) / (24 * WIDTH + 4 * CONTEXT)  # of a block's arithmetic: attention
FORWARD = [0.001] + [0.01 * SHARE, 0.01 * (1 - SHARE)] * BLOCKS + [0.0075]
PARAMETERS = ([(VOCABULARY + CONTEXT) * WIDTH] +
              [4 * WIDTH**2 + 6 * WIDTH, 8 * WIDTH**2 + 7 * WIDTH] * BLOCKS +
              [2 * WIDTH + VOCABULARY * WIDTH])
SECONDS_OF_A_PARAMETER = 3e-6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=60, help="how many are run")
    parser.add_argument("--steps", type=int, default=8, help="updates of a run")
    parser.add_argument("--runs", type=int, default=2, help="of each plan; the fastest counts")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/bin")
    return parser.parse_args()


def pretended_times(flags, cuts):
    """The value of --pretend-compute for a layout that is cut there; 1.5: in two halves."""
    places = [0, *(int(2 * cut) - 1 for cut in cuts), len(FORWARD)]
    replicas = flags["--data-parallel"]
    examples = BATCH // replicas // flags["--microbatches"]
    shards = replicas if flags["--zero"] > 0 else 1
    again = flags.get("--recompute", False) and not cuts  # within the backward of a whole model
    times = []
    for first, last in zip(places, places[1:]):
        forward = examples * sum(FORWARD[first:last])
        update = sum(PARAMETERS[first:last]) * SECONDS_OF_A_PARAMETER / shards
        times.append(f"{forward:.6f},{(3 if again else 2) * forward:.6f},{update:.6f}")
    return ";".join(times)


class Lab:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.text = folder / "text.txt"
        self.text.write_text("".join(chr(97 + (i * i // 8 + i // 50) % VOCABULARY)
                                     for i in range(20000)))
        self.machine = folder / "machine.txt"
        self.machine.write_text(MACHINE)

    def train(self, name, words, flags, cuts):
        """Runs a layout, and returns the folder of the run."""
        out = self.folder / name
        has_links = flags["--stages"] + flags["--data-parallel"] > 2
        links = ["--pretend-machine", self.machine] if has_links else []
        command = ["train_gpt", *words, "--data", self.text, "--out", out, "--clip", "0", "--quiet",
                   "--steps", self.options.steps, "--evaluate-every", "0",
                   "--pretend-compute", pretended_times(flags, cuts), *links]
        self.run(command)
        return out

    def run(self, command):
        words = [self.options.programs / command[0], *map(str, command[1:])]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def profile(self):
        """The run that is measured: each layer is a stage."""
        flags = {"--stages": BLOCKS + 2, "--data-parallel": 1, "--microbatches": 8, "--zero": 0}
        words = ["--layers", BLOCKS, "--heads", 1, "--width", WIDTH, "--context", CONTEXT,
                 "--untied", "--batch", BATCH, "--schedule", "1f1b", "--stages", BLOCKS + 2,
                 "--microbatches", 8]
        return self.train("profile", words, flags, range(1, BLOCKS + 2))

    def search(self, profile):
        found = self.folder / "search.json"
        found.write_text(self.run(["plan", "search", "--machine", self.machine, "--costs", profile,
                                   "--devices", DEVICES, "--rows", "1000000", "--json"]))
        return found


def drawn(rows, count, seed):
    """Numbers of rows: of a schedule, then of a depth and width, then of the rest."""
    choose, left = random.Random(seed), dict(enumerate(rows, 1))
    numbers = []
    while left and len(numbers) < count:
        some = list(left)
        for key in (lambda row: row["schedule"], lambda row: (row["depth"], row["width"])):
            value = choose.choice(sorted({key(left[number]) for number in some}))
            some = [number for number in some if key(left[number]) == value]
        numbers.append(choose.choice(some))
        del left[numbers[-1]]
    return numbers


def measured_seconds(run):
    """The median update, without the first ones, which begin, and the last one, which ends."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seconds = [line["seconds"] for line in lines if "loss" in line]
    return statistics.median(seconds[3:-1])


def ranks_of(values):
    """Places in ascending order; equal values share the mean of theirs."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(pathlib.Path(folder), options)
        search = lab.search(lab.profile())
        rows = json.loads(search.read_text())["best"]
        print(f"{options.plans} of {len(rows)} plans for {DEVICES} devices, drawn with seed "
              f"{options.seed}; pretended: forwards of {FORWARD[0]}, {sum(FORWARD[1:3]):g} and "
              f"{FORWARD[-1]} s an example in embedding, block and head, backwards of twice as "
              f"much, updates of {SECONDS_OF_A_PARAMETER} s a parameter, links of {LATENCY} s and "
              f"{BANDWIDTH} bytes/s. The measured run has a stage for each of {BLOCKS + 2} "
              "layers.\n\n| schedule | depth x width | microbatches | ZeRO | recompute | cuts | "
              "predicted | measured | error |\n| " + " | ".join(["---"] * 9) + " |")
        predicted, measured = [], []
        for number in drawn(rows, options.plans, options.seed):
            row = rows[number - 1]
            words = ["--plan-from", search, "--row", number]
            with concurrent.futures.ThreadPoolExecutor(options.runs) as pool:
                runs = list(pool.map(lambda i: lab.train(f"row-{number}-{i}", words, row["flags"],
                                                         row["cuts"]), range(options.runs)))
            predicted.append(row["seconds"])
            measured.append(min(measured_seconds(run) for run in runs))
            error, again = predicted[-1] / measured[-1] - 1, "yes" if row["recompute"] else "no"
            print(f"| {row['schedule']} | {row['depth']} x {row['width']} | "
                  f"{row['microbatches']} | {row['zero']} | {again} | "
                  f"{','.join(f'{cut:g}' for cut in row['cuts'])} | {1e3 * predicted[-1]:.0f} ms | "
                  f"{1e3 * measured[-1]:.0f} ms | {100 * error:+.1f} % |", flush=True)
    errors = [abs(p / m - 1) for p, m in zip(predicted, measured)]
    correlation = statistics.correlation(ranks_of(predicted), ranks_of(measured))
    print(f"\nRank correlation {correlation:.3f}; error of a prediction: median "
          f"{100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %.")


if __name__ == "__main__":
    main()
