// A device that computes as another one does, and counts its kernels. A device without a profile
// costs nothing: it has no such wrapper around it.
// Not here: devices whose kernels run on while the host continues: their times would be launches'.
// Chapter 03.
#pragma once

#include "autograd/device.h"
#include "examples/profile/kernel_profile.h"

namespace plangrad::autograd {

/// Wraps a device of the CPU. Memory is charged to the new device.
DevicePtr profiled_device(const DevicePtr& inner);

/// The profile of a device that profiled_device() made; null for others.
KernelProfile* profile_of(const Device& device);

/// Measures a device, also through its profile: medians of nine products of 512 x 512 matrices, and
/// of five copies of 64 MiB, the like of which no cache holds. Charges no memory to its meter.
DeviceRates measure_rates(const Device& device);

}  // namespace plangrad::autograd
