// Blank device: a device without memory or arithmetic. The real model runs on it, and its shapes,
// kept activations, FLOPs and moved bytes follow, however large it is.
// Not here: what each kernel does (autograd/kernel_work.h), and seconds. Chapter 03.
#pragma once

#include "autograd/kernel_work.h"

namespace plangrad::autograd {

/// Makes a device whose tensors have shapes and no values, and whose meter counts as any other's.
///   like: the device allocates what this backend would, kernels' scratch included; a backend of
///         the CPU needs as much scratch as the calling thread has compute threads. Null: it
///         allocates tensors alone, and adds gradients into sums, as GPUs do
/// throws: Error, when a kernel is called, if `like` can't say its scratch; or if a value is read
DevicePtr blank_device(std::shared_ptr<Backend> like = nullptr);

/// The kernels called on a blank device since it was made or last asked; none on other devices.
KernelTable take_kernels(const Device& device);

}  // namespace plangrad::autograd
