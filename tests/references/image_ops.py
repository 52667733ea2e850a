"""Writes image_ops.safetensors: results and gradients of PyTorch's operations on images, and of a
narrow ResNet-18, with PyTorch's version in the metadata.

Run in this folder with the packages torch and numpy. Inputs are formulas of an element's index, so
that the file need not hold them; the tests compute them again (tests/autograd/image_test.cpp,
tests/nn/resnet_test.cpp). All is computed in f64; the ResNet's numbers are stored in f32.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from write_safetensors import save

torch.set_default_dtype(torch.float64)
results = {}


def wave(shape, first=0, scale=1.0):
    """scale * sin(first), scale * sin(first + 1), ..."""
    count = int(np.prod(shape))
    return torch.from_numpy(scale * np.sin(np.arange(first, first + count)).reshape(shape))


def store(name, y, inputs):
    """The result y, and the gradients of sum(y * wave) with respect to the named inputs."""
    results[name] = y.detach().numpy()
    y.backward(wave(y.shape, first=5000))
    for key, x in inputs.items():
        results[f"{name}.d{key}"] = x.grad.numpy()


def images():
    return wave((2, 3, 7, 6)).requires_grad_()


for stride, padding in [(1, 0), (1, 1), (2, 1), (3, 2)]:
    x, weight = images(), wave((4, 3, 3, 2), first=1000).requires_grad_()
    y = F.conv2d(x, weight, stride=stride, padding=padding)
    store(f"conv2d.{stride}.{padding}", y, {"x": x, "weight": weight})

for size, stride, padding in [(2, 2, 0), (3, 2, 1)]:
    x = images()
    y = F.max_pool2d(x, size, stride, padding)
    store(f"max_pool2d.{size}.{stride}.{padding}", y, {"x": x})
    x = images()
    y = F.avg_pool2d(x, size, stride, padding)
    store(f"average_pool2d.{size}.{stride}.{padding}", y, {"x": x})

for training in [True, False]:
    name = "batch_norm.training" if training else "batch_norm.inference"
    x = images()
    weight, bias = wave(3, 1000).requires_grad_(), wave(3, 2000).requires_grad_()
    mean, variance = wave(3, 3000), 1 + wave(3, 4000, 0.5)
    y = F.batch_norm(x, mean, variance, weight, bias, training)
    store(name, y, {"x": x, "weight": weight, "bias": bias})
    if training:  # updated with momentum 0.1
        results["batch_norm.running_mean"] = mean.numpy()
        results["batch_norm.running_var"] = variance.numpy()


class Block(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential()
        if stride != 1 or width != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    def __init__(self, channels, classes, width):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for group in range(4):
            out = width * 2**group
            before = out if group == 0 else out // 2
            blocks = nn.Sequential(Block(before, out, 1 if group == 0 else 2), Block(out, out, 1))
            setattr(self, f"layer{group + 1}", blocks)
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def first_value(name, shape, offset):
    """The value of a parameter that begins at this element of all parameters' flat buffer."""
    if name.endswith("running_mean"):
        return wave(shape, offset, 0.1)
    if name.endswith("running_var"):
        return 1 + wave(shape, offset, 0.5)
    if len(shape) > 1:
        return wave(shape, offset, 0.5)
    if name.endswith("bias"):
        return wave(shape, offset, 0.2)
    return 1 + wave(shape, offset, 0.3)


model, offset = ResNet18(channels=2, classes=5, width=2), 0
state = {n: t for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")}
for name, tensor in state.items():
    tensor.copy_(first_value(name, tensor.shape, offset))
    offset += tensor.numel()

x = wave((3, 2, 8, 8))
results["resnet.inference.logits"] = model.eval()(x).detach().numpy()
logits = model.train()(x)
loss = F.cross_entropy(logits, torch.tensor([0, 3, 4]))
loss.backward()
results["resnet.logits"], results["resnet.loss"] = logits.detach().numpy(), loss.detach().numpy()
weights = dict(model.named_parameters())
for name, tensor in state.items():  # the gradient, or, of statistics, the updated value
    value = weights[name].grad if name in weights else tensor
    results[f"resnet.{name}"] = value.numpy().astype(np.float32)

save("image_ops.safetensors", results,
     {"script": "tests/references/image_ops.py", "torch": torch.__version__})
print(len(results), "tensors,", offset, "parameters")
