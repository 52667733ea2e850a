#!/usr/bin/env python3
"""Tokens per second of a GPT's training step in PyTorch on a GPU, beside gpu_training's.

The network is that of tests/references/gpt_model.py, with PyTorch's fused attention and fused AdamW;
a step is forward, loss, backward, clipping, AdamW, as in gpu_training, of the same shape and batch,
which --beside, gpu_training's JSON, gives; only the vocabulary is rounded up to a multiple of 64, as
PyTorch's users do by hand for speed, and as plangrad's head does by itself. It is measured eagerly
and compiled, and in two forms of bf16: by autocast, with weights in f32, as is usual; and with
weights in bf16, of which AdamW steps a copy in f32, as plangrad does. Without PyTorch, or without a GPU for it, a line says so.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "references"))

LEFT_OUT = 77  # exit status: there is nothing to compare with
GPT2 = {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50304}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="FILE", help="what gpu_training --json wrote")
    parser.add_argument("--batch", type=int, default=16, help="sequences, without --beside")
    parser.add_argument("--steps", type=int, default=10, help="in a round")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", metavar="FILE", help="also writes the results there")
    return parser.parse_args()


class MasterAdamW:
    """AdamW on copies in f32 of weights in bf16, which receive the rounded results."""

    def __init__(self, torch, model, adamw, **options):
        self.torch, self.weights = torch, list(model.parameters())
        self.masters = [w.detach().float().requires_grad_() for w in self.weights]
        holder = torch.nn.ParameterList(self.masters)  # adamw asks a model for its parameters
        self.optimizer = adamw(holder, 1e-3, **options)
        self.masters = list(holder.parameters())

    def gradients(self):
        """In f32, where their norm is clipped, too."""
        for master, weight in zip(self.masters, self.weights):
            master.grad = weight.grad.float()
        return self.masters

    def step(self):
        self.optimizer.step()
        with self.torch.no_grad():
            self.torch._foreach_copy_(self.weights, self.masters)

    def zero_grad(self):
        for weight in self.weights:
            weight.grad = None


class PlainAdamW:
    def __init__(self, torch, model, adamw, **options):
        self.weights = list(model.parameters())
        self.optimizer = adamw(model, 1e-3, **options)

    def gradients(self):
        return self.weights

    def step(self):
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)


def measure(torch, shape, batch, options, narrow_weights, compiled):
    """Tokens a second, and the most memory that was allocated."""
    from gpt_model import GPT, adamw

    on_gpu = options.device == "cuda"
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    torch.manual_seed(1)
    model = GPT(**shape).to(options.device).train()
    if narrow_weights:
        model = model.to(torch.bfloat16)
    kind = MasterAdamW if narrow_weights else PlainAdamW
    optimizer = kind(torch, model, adamw, **({"fused": True} if on_gpu else {}))
    tokens = torch.randint(shape["vocabulary"], (batch, shape["context"]), device=options.device)
    targets = tokens.roll(-1, 1)
    forward = torch.compile(model) if compiled else model
    precision = (contextlib.nullcontext() if narrow_weights
                 else torch.autocast(options.device, dtype=torch.bfloat16))

    def step():
        optimizer.zero_grad()
        with precision:
            _, loss = forward(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimizer.gradients(), 1.0)
        optimizer.step()

    for _ in range(3):
        step()
    seconds = []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(options.rounds):
        synchronize()
        start = time.perf_counter()
        for _ in range(options.steps):
            step()
        synchronize()
        seconds.append((time.perf_counter() - start) / options.steps)
    per_step = statistics.median(seconds)
    return {"form": ("bf16 weights" if narrow_weights else "autocast")
            + (", compiled" if compiled else ", eager"),
            "seconds_per_step": per_step, "tokens_per_second": tokens.numel() / per_step,
            "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None}


def show(result, ours):
    ratio = utilisation = ""
    if ours:
        ratio = f"{ours['tokens_per_second'] / result['tokens_per_second']:.2f}"
        rate = ours["matmul_gflops"] * 1e9
        share = result["tokens_per_second"] * ours["flops_per_token"] / rate
        utilisation = f"{100 * share:.1f}%"
    peak = f"{result['peak_bytes'] / 1e9:.2f}" if result["peak_bytes"] else ""
    print(f"| {result['form']} | {result['tokens_per_second']:.0f} | "
          f"{1e3 * result['seconds_per_step']:.2f} | {utilisation} | {peak} | {ratio} |", flush=True)


def main():
    options = arguments()
    try:
        import torch
    except ImportError:
        print(f"PyTorch is not in {sys.executable}: nothing to compare with")
        sys.exit(LEFT_OUT)
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} sees no GPU: nothing to compare with")
        sys.exit(LEFT_OUT)
    shape, batch, ours = GPT2, options.batch, None
    if options.beside:
        ours = json.loads(pathlib.Path(options.beside).read_text())
        shape = {name: ours["model"][name] for name in GPT2}
        shape["vocabulary"] = -(-shape["vocabulary"] // 64) * 64
        batch = ours["batch"]
    name = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU"
    print(f"PyTorch {torch.__version__} on {name}, {batch} x {shape['context']} tokens\n")
    print("| PyTorch | tokens/s | ms a step | utilisation | peak, GB | plangrad / PyTorch |\n"
          "| --- | --- | --- | --- | --- | --- |")
    results, failed = [], False

    def write():  # after each result, as compiling may outlast the time that is left
        if options.json:
            everything = {"torch": torch.__version__, "device": name, "results": results}
            pathlib.Path(options.json).write_text(json.dumps(everything, indent=2) + "\n")

    for compiled in (False, True):
        for narrow_weights in (False, True):
            try:
                results.append(measure(torch, shape, batch, options, narrow_weights, compiled))
                show(results[-1], ours)
                write()
            except Exception as error:  # compiling needs more of a machine than running does
                failed = True
                print(f"\ngpu_pytorch: {'compiled' if compiled else 'eager'}, "
                      f"{'bf16 weights' if narrow_weights else 'autocast'}: {error}\n", flush=True)
            if options.device == "cuda":
                torch.cuda.empty_cache()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
