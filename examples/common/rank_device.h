// Where ranks compute: --device, as the functions of cuda/devices.h that it stands for.
// Not here: what they do; and the CPU, which needs none of them.
// Chapter 04.
#pragma once

#include <string>

#include "cuda/devices.h"

namespace paragrad::examples {

class Flags;

/// A kind of device that is not the CPU.
struct DeviceKind {
  decltype(&cuda::prepare_devices) prepare;
  decltype(&cuda::make_device) make;
  decltype(&cuda::make_transport) transport;
};

/// Null for the CPU, and for what this build has not.
const DeviceKind* kind_of(const std::string& device);

void add_device_flag(Flags& flags, std::string& device);

/// throws: Error if this build has no such device
void check_device(const std::string& device);

/// Once, before devices are made; see cuda/devices.h.
void prepare_devices(const std::string& device, int ranks, bool own);

/// A rank's device. `place`: its number among the ranks of this host; `graphs`: see cuda/devices.h.
autograd::DevicePtr make_device(const std::string& device, int place, bool graphs = false);

}  // namespace paragrad::examples
