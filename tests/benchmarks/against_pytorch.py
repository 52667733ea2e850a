#!/usr/bin/env python3
"""Tokens per second of a GPT's training step: plangrad beside PyTorch, on the same machine.

Run it with the Python whose PyTorch is to be compared. Both sides train the same network (that of
tests/references/gpt_model.py) on batches of made-up tokens, in the same precision and with the
same number of threads: forward, loss, backward, clipping, AdamW. They take turns, each run in a
process of its own; a ratio is that of two neighbouring runs, and the table holds the medians.

Debian's python3-torch multiplies by the BLAS that is installed. For a fair comparison install
libopenblas0-openmp, whose threads are PyTorch's own. At the small size in f32, one run with it made
18,168 tokens/s, with libopenblas0-pthread 4,315, with the reference BLAS 945.

In bf16, plangrad holds weights and activations in bf16 and steps an f32 copy; PyTorch runs under
autocast, as nanoGPT does.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY = 65
SIZES = {
    "small": dict(layers=4, heads=4, width=128, context=64, batch=12),
    "larger": dict(layers=6, heads=6, width=384, context=256, batch=8),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, nargs="+", default=list(SIZES))
    parser.add_argument("--dtype", choices=["f32", "bf16"], nargs="+", default=["f32", "bf16"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, default=3, help="runs of each side")
    parser.add_argument("--steps", type=int, default=30, help="timed steps of a run")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--binary", default=ROOT / "build/bin/benchmarks/train_step",
                        help="plangrad's side")
    parser.add_argument("--out", help="write the results to this file, as JSON")
    parser.add_argument("--pytorch-run", metavar="JSON", help=argparse.SUPPRESS)
    return parser.parse_args()


def optimizer_of(torch, model, adamw):
    """The fastest AdamW that this PyTorch has for the CPU."""
    for options in ({"fused": True}, {"foreach": True}):
        with contextlib.suppress(TypeError, RuntimeError):
            return adamw(model, 1e-3, **options), list(options)[0]
    return adamw(model, 1e-3), "loop"


def pytorch_run(size, dtype, steps, threads, compiled):
    """One run of PyTorch's side, in a process of its own."""
    sys.path.insert(0, str(ROOT / "tests/references"))
    import torch
    from gpt_model import GPT, adamw

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    batch = SIZES[size]["batch"]
    config = {key: value for key, value in SIZES[size].items() if key != "batch"}
    model = GPT(vocabulary=VOCABULARY, **config).train()
    optimizer, kind = optimizer_of(torch, model, adamw)
    tokens = torch.randint(VOCABULARY, (batch, config["context"]))
    targets = tokens.roll(-1)
    precision = (torch.autocast("cpu", dtype=torch.bfloat16) if dtype == "bf16"
                 else contextlib.nullcontext())
    forward = torch.compile(model) if compiled else model

    def step():
        start = time.perf_counter()
        with precision:
            _, loss = forward(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return time.perf_counter() - start

    for _ in range(5):
        step()
    seconds = statistics.median(step() for _ in range(steps))
    return {"tokens_per_second": tokens.numel() / seconds, "torch": torch.__version__,
            "attention": "fused" if hasattr(torch.nn.functional, "scaled_dot_product_attention")
            else "explicit", "adamw": kind, "compiled": compiled}


def run(command, threads):
    """The JSON object that a program prints last."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run([str(part) for part in command], env=environment, text=True,
                          stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"against_pytorch: {command[0]} failed with exit code {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(options, size, dtype):
    ours = [options.binary, "--size", size, "--dtype", dtype, "--steps", options.steps, "--json"]
    asked = dict(size=size, dtype=dtype, steps=options.steps, threads=options.threads,
                 compiled=options.compile)
    theirs = [sys.executable, __file__, "--pytorch-run", json.dumps(asked)]
    pairs = [(run(ours, options.threads), run(theirs, options.threads))
             for _ in range(options.pairs)]
    speeds = [(a["tokens_per_second"], b["tokens_per_second"]) for a, b in pairs]
    ratios = [a / b for a, b in speeds]
    return {"size": size, "dtype": dtype, "threads": options.threads,
            "plangrad": statistics.median(a for a, _ in speeds),
            "pytorch": statistics.median(b for _, b in speeds),
            "ratio": statistics.median(ratios), "ratios": ratios,
            **{key: value for key, value in pairs[0][1].items() if key != "tokens_per_second"}}


def main():
    options = arguments()
    if options.pytorch_run:
        print(json.dumps(pytorch_run(**json.loads(options.pytorch_run))))
        return
    if not pathlib.Path(options.binary).exists():
        sys.exit(f"against_pytorch: {options.binary} is not there; build plangrad first "
                 "(cmake --preset release && cmake --build --preset release)")
    print("| size | precision | threads | plangrad, tokens/s | PyTorch, tokens/s | ratio | PyTorch |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    results = []
    for size in options.size:
        for dtype in options.dtype:
            r = compare(options, size, dtype)
            results.append(r)
            about = f"{r['torch']}, {r['attention']} attention, {r['adamw']} AdamW"
            about += ", compiled" if r["compiled"] else ""
            print(f"| {size} | {dtype} | {r['threads']} | {r['plangrad']:,.0f} | "
                  f"{r['pytorch']:,.0f} | {r['ratio']:.2f} | {about} |", flush=True)
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
