"""Loads a run's export with the package transformers, and compares what both compute.

    python tests/references/exported.py RUN BIN [PROMPT]

RUN: the folder of a complete run of train_gpt on a text; BIN: the folder of the programs. Checks
that AutoTokenizer gives the vocabulary's ids and the text back, that GPT2LMHeadModel has the
validation loss of summary.json, and that greedy text is sample_gpt's. Prints the figures, and fails
if they differ.
"""

import json
import pathlib
import subprocess
import sys

import torch
import transformers

run, programs = map(pathlib.Path, sys.argv[1:3])
folder = run / "huggingface"
flags = json.loads((run / "summary.json").read_text())["config"]["flags"]
saved = json.loads((run / "checkpoint" / "manifest.json").read_text())["run"]["vocabulary"]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval().double()
print(f"transformers {transformers.__version__}, torch {torch.__version__}")


def same(what, ours, theirs, good):
    print(f"{what}: plangrad {ours}, transformers {theirs}")
    if not good:
        sys.exit(f"{what} differs")


def ids_of(text):
    """Ids by the checkpoint's own vocabulary; of byte pairs, joined pair by pair."""
    if saved["kind"] == "chars":
        return [saved["characters"].index(c) for c in text]
    if saved["kind"] == "bytes":
        return list(text.encode())
    ids = {token: i for i, token in enumerate(saved["tokens"])}
    ranks = {tuple(merge.split()): i for i, merge in enumerate(saved["merges"])}
    result = []
    for word, _ in tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text):
        parts = list(word)
        while pairs := [(ranks[pair], i) for i, pair in enumerate(zip(parts, parts[1:]))
                        if pair in ranks]:
            at = min(pairs)[1]
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        result += [ids[part] for part in parts]
    return result


text = pathlib.Path(flags["--data"]).read_text()
tokens = tokenizer.encode(text)
sample = text[:20000]
same("ids of the text's beginning", len(ids_of(sample)), len(tokenizer.encode(sample)),
     ids_of(sample) == tokenizer.encode(sample))
same("characters after decoding", len(text), len(tokenizer.decode(tokens)),
     tokenizer.decode(tokens) == text)

context = flags["--context"]
validation = torch.tensor(tokens[len(tokens) * 9 // 10:])
windows = (len(validation) - 1) // context
inputs = validation[:windows * context].reshape(windows, context)
targets = validation[1:windows * context + 1].reshape(windows, context)
with torch.no_grad():
    losses = [torch.nn.functional.cross_entropy(model(x[None]).logits[0], y).item()
              for x, y in zip(inputs, targets)]
ours = json.loads((run / "summary.json").read_text())["validation_loss"]
theirs = sum(losses) / windows
same("validation loss", f"{ours:.8f}", f"{theirs:.8f}", abs(ours - theirs) < 1e-6 * abs(theirs))

prompt = sys.argv[3] if len(sys.argv) > 3 else text[:context // 4]
count = context - len(tokenizer.encode(prompt))
with torch.no_grad():
    written = model.generate(torch.tensor([tokenizer.encode(prompt)]), do_sample=False,
                             max_new_tokens=count, pad_token_id=0)
theirs = tokenizer.decode(written[0])
ours = subprocess.run([programs / "sample_gpt", "--from", run, "--prompt", prompt, "--tokens",
                       str(count), "--temperature", "0"], capture_output=True, text=True,
                      check=True).stdout.removesuffix("\n")
same("greedy text", repr(ours), repr(theirs), ours == theirs)
