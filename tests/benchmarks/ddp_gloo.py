#!/usr/bin/env python3
"""Seconds per step of a GPT under PyTorch's DistributedDataParallel over gloo, started by mpirun.

The network of tests/references/gpt_model.py on made-up tokens, one thread a rank: forward, loss,
backward with all-reduce, clipping, AdamW. Rank 0 prints a line of JSON. codec_lab.sh compares with
train_gpt; the environment's MASTER_ADDR and GLOO_SOCKET_IFNAME say where the ranks meet.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "references"))
from gpt_model import GPT, adamw  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("layers", "heads", "width", "context", "vocabulary", "batch", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def bytes_sent():
    """By this host, headers and all, over its network."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines if "lo:" not in line)


def main():
    options = arguments()
    rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    sizes = {name: getattr(options, name) for name in
             ("layers", "heads", "width", "context", "vocabulary")}
    model = torch.nn.parallel.DistributedDataParallel(GPT(**sizes).train())
    optimizer = adamw(model, 1e-3)
    torch.manual_seed(rank)
    tokens = torch.randint(options.vocabulary, (options.batch // ranks, options.context))
    targets = tokens.roll(-1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        _, loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(2):
        step()
    dist.barrier()
    start, sent = time.perf_counter(), bytes_sent()
    for _ in range(options.steps):
        step()
    seconds = (time.perf_counter() - start) / options.steps
    if rank == 0:
        print(json.dumps({"seconds": seconds, "bytes": (bytes_sent() - sent) // options.steps,
                          "torch": torch.__version__.split("+")[0]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
