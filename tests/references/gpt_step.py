"""Writes gpt_step.safetensors: a small GPT's first step and ten steps of training, by PyTorch.

weight.NAME, gradient.NAME and final.NAME are a parameter before, its gradient in the first step,
and its value after ten. Computed in f64 and stored as f32; the first weights are f32 numbers.
"""

import numpy as np
import torch
from gpt_model import GPT, adamw, learning_rate
from write_safetensors import save

torch.manual_seed(2)
model = GPT(layers=2, heads=2, width=16, context=8, vocabulary=19)
with torch.no_grad():
    for parameter in model.parameters():  # larger than GPT-2's own first weights, none zero
        parameter.add_(0.1 * torch.randn(parameter.shape))
model = model.double()
tokens, targets = torch.randint(19, (3, 8)), torch.randint(19, (3, 8))

numpy = lambda x: np.array(x.detach().float().numpy(), order="C")
result = {"tokens": tokens.int().numpy(), "targets": targets.int().numpy()}
result |= {f"weight.{name}": numpy(p) for name, p in model.named_parameters()}

optimizer = adamw(model, 1e-2)
losses, norms = [], []
for step in range(10):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, highest=1e-2, lowest=1e-3, warmup=3, steps=10)
    logits, loss = model(tokens, targets)
    optimizer.zero_grad()
    loss.backward()
    if step == 0:
        result |= {"logits": numpy(logits)}
        result |= {f"gradient.{name}": numpy(p.grad) for name, p in model.named_parameters()}
    norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    losses.append(loss)
    optimizer.step()

result |= {"losses": numpy(torch.stack(losses)), "gradient_norms": numpy(torch.stack(norms))}
result |= {f"final.{name}": numpy(p) for name, p in model.named_parameters()}
save("gpt_step.safetensors", result, {"script": "gpt_step.py", "torch": torch.__version__})
