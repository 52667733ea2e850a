// A device that computes like the CPU, in memory that the host can't touch between kernels.
// Not here: speed. It shows that operations, modules and training go through the backend alone, as
// they must on a device whose memory the host does not share.
#pragma once

#include "autograd/device.h"

namespace plangrad::tests {

/// A device whose storage lies in one range of `bytes` addresses, which only kernels can read and
/// write: any other access is a segmentation fault.
autograd::DevicePtr guarded_device(std::int64_t bytes = 64 << 20);

}  // namespace plangrad::tests
