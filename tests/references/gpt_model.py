"""GPT-2 in PyTorch as nanoGPT has it: what the reference files are computed with.

Parameters have the names of GPT-2's files; weights of linear layers are (out,in).
"""

import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


@functools.lru_cache
def later(time):
    """Which positions a query must not see: those after its own."""
    return torch.ones(time, time, dtype=torch.bool).triu(1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(x).split(width, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
            y = scores.masked_fill(later(time), float("-inf")).softmax(-1).to(v.dtype) @ v
        return self.c_proj(y.transpose(1, 2).reshape(batch, time, width))


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), Perceptron(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """The head reads the table of tokens (tied embeddings)."""

    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))
            elif parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets=None):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def adamw(model, learning_rate, weight_decay=0.1, betas=(0.9, 0.95), **options):
    """Decay on matrices, embeddings among them, and not on biases and norms."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay},
              {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, **options)


def learning_rate(step, highest, lowest, warmup, steps):
    """Warm-up and half a cosine, of the update after `step` others."""
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    if step >= steps:
        return lowest
    done = (step - warmup) / (steps - warmup)
    return lowest + 0.5 * (1 + math.cos(math.pi * done)) * (highest - lowest)
