"""Writes ops.safetensors: inputs, result and gradients of every operation but those on images, by PyTorch.

Each case NAME has NAME.input.0, ..., NAME.output, NAME.dy (the gradient that is sent back) and
NAME.gradient.0, ... for its inputs of floats. Everything is computed in f64 and stored as f32, so
that the file holds the nearest f32 to the right value.
"""

import numpy as np
import torch
import torch.nn.functional as F
from write_safetensors import save

torch.manual_seed(1)
tensors = {}


def case(name, f, *inputs):
    # The inputs are f32 numbers, so that C++ reads exactly what PyTorch computed with.
    leaves = [x.float().double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = f(*leaves)
    dy = torch.randn(y.shape).double()
    y.backward(dy)
    store = lambda key, x: tensors.update({f"{name}.{key}": np.asarray(x.detach().numpy(), order="C")})
    for i, x in enumerate(leaves):
        floating = x.is_floating_point()
        store(f"input.{i}", x.float() if floating else x.int())
        if floating:
            store(f"gradient.{i}", x.grad.float())
    store("output", y.float())
    store("dy", dy.float())


def randn(*shape):
    return torch.randn(shape)


def attention(qkv, heads=2):
    batch, time, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = (x.view(batch, time, heads, -1).transpose(1, 2) for x in qkv.split(width, 2))
    scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
    hidden = torch.ones(time, time).triu(1).bool()
    shares = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return (shares @ v).transpose(1, 2).reshape(batch, time, width)


ids = torch.tensor([[4, 0, 4], [1, 2, 4]])
labels = torch.tensor([0, 32, 7, 7, 31])

case("add", lambda a, b: a + b, randn(3, 1, 5), randn(4, 1))
case("subtract", lambda a, b: a - b, randn(2, 3), randn(3))
case("multiply", lambda a, b: a * b, randn(3, 1, 5), randn(4, 1))
case("divide", lambda a, b: a / b, randn(2, 3), torch.rand(2, 1) + 0.5)
case("affine", lambda x: -1.5 * x + 0.25, randn(7))
case("negate", lambda x: -x, randn(7))
case("exp", torch.exp, 3 * randn(33))
case("log", torch.log, torch.rand(33) + 0.01)
case("sqrt", torch.sqrt, torch.rand(33) + 0.01)
case("tanh", torch.tanh, 3 * randn(33))
case("relu", torch.relu, randn(33))
case("gelu", lambda x: F.gelu(x, approximate="tanh"), 3 * randn(65))
case("bias_gelu", lambda x, b: F.gelu(x + b, approximate="tanh"), randn(3, 17), randn(17))
case("sum", lambda x: x.sum((0, 2), keepdim=True), randn(3, 4, 5))
case("mean", lambda x: x.mean(1, keepdim=True), randn(3, 4, 5))
case("max", lambda x: x.amax((1, 2), keepdim=True), randn(3, 4, 5))
case("reshape", lambda x: x.reshape(6, 10), randn(3, 4, 5))
case("permute", lambda x: x.permute(2, 0, 1), randn(3, 4, 5))
case("transpose", lambda x: x.transpose(0, 2), randn(3, 4, 5))
case("slice", lambda x: x[:, 1:3], randn(3, 4, 5))
case("concatenate", lambda a, b: torch.cat([a, b], 1), randn(3, 4, 5), randn(3, 2, 5))
case("matmul", torch.matmul, randn(2, 3, 7), randn(2, 7, 5))
case("matmul_transposed", lambda a, b: a.mT @ b.mT, randn(7, 3), randn(5, 7))
case("linear", F.linear, randn(2, 3, 17), randn(5, 17), randn(5))
case("softmax", lambda x: x.softmax(-1), 3 * randn(3, 33))
case("layer_norm", lambda x, w, b: F.layer_norm(x, (33,), w, b), 2 * randn(2, 3, 33) + 1, randn(33), randn(33))
case("cross_entropy", F.cross_entropy, 3 * randn(5, 33), labels)
case("embedding", lambda table, i: F.embedding(i, table), randn(5, 7), ids)
case("attention", attention, randn(2, 9, 36))

save("ops.safetensors", tensors, {"script": "ops.py", "torch": torch.__version__})
