#!/usr/bin/env python3
"""A table of a training step's kernels, from what NVIDIA's profiler ncu has measured.

  gpu_kernel_table.py --metrics            the metrics to measure, as ncu's --metrics takes them
  gpu_kernel_table.py FILE [--json FILE]   from the output of: ncu --csv --page raw --print-units base

Kernels of one name are a row: launches, time, its share of the whole, bytes from and to memory a
second, and the share of the limit that is nearer, of memory's bandwidth or of the multiprocessors.
"""

import argparse
import csv
import json
import re
import sys

TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
MEMORY = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def number(text):
    """A number as ncu prints it, 12,345.6; None for a unit's name or a metric that it lacks."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def short(name):
    """A kernel's name without its parameters and namespaces."""
    name = re.sub(r"\(anonymous namespace\)::|<unnamed>::", "", name)
    name = re.sub(r"^(void|static) ", "", name)
    depth, end = 0, len(name)
    for i, character in enumerate(name):  # up to the list of parameters
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            end = i
            break
    return re.sub(r"\b(plangrad|cuda|autograd)::", "", name[:end])


def launches_in(lines):
    """The launches in ncu's output: dictionaries by the header's names."""
    rows = csv.reader(line for line in lines if line.startswith('"'))
    header = next((row for row in rows if "Kernel Name" in row), None)
    if header is None:
        sys.exit("gpu_kernel_table.py: the file has no table of kernels; run ncu with --csv --page raw")
    launches = [dict(zip(header, row)) for row in rows]
    return [each for each in launches if number(each.get(TIME, "")) is not None]


def kernels_of(launches):
    """Kernels by name, the longest first. Shares of limits are means, weighted by time."""
    kernels = {}
    for launch in launches:
        seconds = number(launch[TIME]) / 1e9
        kernel = kernels.setdefault(short(launch["Kernel Name"]), {
            "launches": 0, "seconds": 0.0, "bytes": 0.0, "memory": 0.0, "compute": 0.0})
        kernel["launches"] += 1
        kernel["seconds"] += seconds
        kernel["bytes"] += number(launch.get(BYTES, "")) or 0
        kernel["memory"] += seconds * (number(launch.get(MEMORY, "")) or 0) / 100
        kernel["compute"] += seconds * (number(launch.get(COMPUTE, "")) or 0) / 100
    for kernel in kernels.values():
        for limit in "memory", "compute":
            kernel[limit] /= kernel["seconds"] or 1
    return dict(sorted(kernels.items(), key=lambda item: -item[1]["seconds"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--json", metavar="FILE", help="also writes the table there")
    parser.add_argument("--metrics", action="store_true", help="names what ncu has to measure")
    options = parser.parse_args()
    if options.metrics:
        print(",".join((TIME, BYTES, MEMORY, COMPUTE)))
        return
    if not options.file:
        parser.error("give the file that ncu has written")
    with open(options.file, encoding="utf-8", errors="replace") as lines:
        kernels = kernels_of(launches_in(lines))
    whole = sum(each["seconds"] for each in kernels.values())
    print("Of two steps, and of what comes before them; the profiler runs kernels one by one.\n")
    print("| kernel | launches | ms | share | GB/s | of memory's limit | of the processors' |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for name, each in kernels.items():
        rate = each["bytes"] / each["seconds"] / 1e9 if each["seconds"] else 0
        print(f"| `{name}` | {each['launches']} | {1e3 * each['seconds']:.3f} | "
              f"{each['seconds'] / whole:.1%} | {rate:.0f} | {each['memory']:.0%} | "
              f"{each['compute']:.0%} |")
    print(f"| all | {sum(each['launches'] for each in kernels.values())} | {1e3 * whole:.3f} | "
          "100.0% | | | |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(kernels, file, indent=2)


if __name__ == "__main__":
    main()
