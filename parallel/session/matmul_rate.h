// The rate of a device's matrix products: what a training step's speed is held against.
// Not here: the step's own operations (gpt_flops_per_token in nn/models/gpt.h).
// Chapter 03.
#pragma once

#include "autograd/device.h"

namespace paragrad::parallel {

/// Best of a few products of square f32 matrices, in floating-point operations a second.
/// Takes about 0.2 s on a laptop.
double matmul_rate(const autograd::DevicePtr& device);

}  // namespace paragrad::parallel
