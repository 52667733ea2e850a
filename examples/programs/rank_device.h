// The flag --device, which selects where ranks compute, and the functions of cuda/devices.h for it.
// Not here: what those functions do. Chapter 04.
#pragma once

#include <string>

#include "cuda/devices.h"

namespace plangrad::examples {

class Flags;

/// The functions of cuda/devices.h for one kind of device. The CPU's `transport` gives null: host
/// memory needs no transport of its own.
struct DeviceKind {
  decltype(&cuda::prepare_devices) prepare;
  decltype(&cuda::make_device) make;
  decltype(&cuda::make_transport) transport;
};

/// throws: Error if this build has no such device
const DeviceKind& device_kind(const std::string& device);

void add_device_flag(Flags& flags, std::string& device);

}  // namespace plangrad::examples
