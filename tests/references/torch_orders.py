"""Writes orders of PyTorch's schedules as rows of plans: tests/references/torch_orders.txt.

    python tests/references/torch_orders.py PYTORCH >tests/references/torch_orders.txt

PYTORCH: a clone of PyTorch, whose package torch is installed. Two orders are CSV files of tests,
two are what its classes list for 4 ranks. The orders are those of its commit 00722e648b74.
"""

import pathlib
import re
import sys

from torch.distributed.pipelining import schedules

artifacts = pathlib.Path(sys.argv[1]) / "test/distributed/pipelining/artifacts"
ranks, microbatches = 4, 8


def of_file(name):
    lines = (artifacts / name).read_text().splitlines()
    return [re.findall(r"\d+[FBIW]\d+", line) for line in lines]


def of_class(kind):
    schedule = object.__new__(kind)
    vars(schedule).update(pp_group_size=ranks, n_local_stages=2, num_stages=2 * ranks)
    vars(schedule).update(_n_microbatches=microbatches, microbatches_per_round=ranks)
    rows = [schedule._calculate_single_rank_operations(rank) for rank in range(ranks)]
    return [[str(cell) for cell in row if cell] for row in rows]


for name, rows in {
    "dualpipev_4rank_10mb.csv": of_file("dualpipev_4rank_10mb.csv"),
    "ScheduleZBVZeroBubble": of_class(schedules.ScheduleZBVZeroBubble),
    "ScheduleInterleaved1F1B": of_class(schedules.ScheduleInterleaved1F1B),
    "zb1p_2rank_2stagep_compute.csv": of_file("zb1p_2rank_2stagep_compute.csv"),
}.items():
    numbers = [[int(n) for n in re.findall(r"\d+", cell)] for row in rows for cell in row]
    stages, per_step = (1 + max(each) for each in zip(*numbers))
    print(f"stages {stages} per_step {per_step} steps 1  # {name}")
    print("\n".join(" ".join(cell + "v0" for cell in row) for row in rows), end="\n\n")
