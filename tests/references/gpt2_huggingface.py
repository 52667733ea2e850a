"""Writes gpt2_huggingface/: a tiny GPT-2 in two folders, and what it computes.

with_prefix: names begin with "transformer.", as the package transformers saves GPT2LMHeadModel.
without_prefix: as the published GPT-2, with the buffers h.N.attn.bias of attention's mask.
expected.safetensors: tokens, and the logits that GPT2LMHeadModel gives in f64.
"""

import json
import pathlib

import numpy as np
import torch
import transformers
from write_safetensors import save

torch.manual_seed(3)
config = transformers.GPT2Config(vocab_size=23, n_positions=12, n_embd=12, n_layer=2, n_head=3,
                                 bos_token_id=22, eos_token_id=22)
model = transformers.GPT2LMHeadModel(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(0.2 * torch.randn(parameter.shape))
tokens = torch.randint(23, (2, 12))

about = {"format": "pt", "script": "gpt2_huggingface.py", "torch": torch.__version__,
         "transformers": transformers.__version__}
weights = {name: np.array(x.detach().numpy(), order="C")
           for name, x in model.named_parameters()}  # lm_head is wte and is not listed twice
published = {name.removeprefix("transformer."): x for name, x in weights.items()}
for layer in range(2):  # which positions see which
    published[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, 12, 12), np.float32))

folder = pathlib.Path(__file__).parent / "gpt2_huggingface"
for name, tensors in {"with_prefix": weights, "without_prefix": published}.items():
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps(config.to_diff_dict(), indent=2) + "\n")
    save(folder / name / "model.safetensors", tensors, about)

logits = model.double()(tokens).logits.float().detach().numpy()
save(folder / "expected.safetensors", {"tokens": tokens.int().numpy(), "logits": logits}, about)
