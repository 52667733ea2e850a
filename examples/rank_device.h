// Where ranks compute: --device, as the functions of cuda/devices.h that it stands for.
// Not here: what they do; and the CPU, which needs none of them.
// Chapter 04.
#pragma once

#include <memory>
#include <string>

#include "autograd/cpu/cpu_backend.h"
#include "cuda/devices.h"
#include "examples/program.h"

namespace paragrad::examples {

/// A kind of device that is not the CPU.
struct DeviceKind {
  decltype(&cuda::prepare_devices) prepare;
  decltype(&cuda::make_device) make;
  decltype(&cuda::make_transport) transport;
};

/// Null for the CPU, and for what this build has not.
inline const DeviceKind* kind_of([[maybe_unused]] const std::string& device) {
#if PARAGRAD_EMULATOR
  static constexpr DeviceKind emulated{cuda_emulated::prepare_devices, cuda_emulated::make_device,
                                       cuda_emulated::make_transport};
  if (device == "emulator") return &emulated;
#endif
#if PARAGRAD_CUDA
  static constexpr DeviceKind gpus{cuda::prepare_devices, cuda::make_device, cuda::make_transport};
  if (device == "cuda") return &gpus;
#endif
  return nullptr;
}

inline void add_device_flag(Flags& flags, std::string& device) {
  std::string built = "this build has cpu";
  for (const char* name : {"cuda", "emulator"})
    if (kind_of(name)) built += text(", ", name);
  flags.choice("--device", device, {"cpu", "cuda", "emulator"}, built.c_str());
}

/// throws: Error if this build has no such device
inline void check_device(const std::string& device) {
  PG_CHECK(device != "emulator" || kind_of(device), "--device emulator: this build has no such ",
           "device; the emulator is written for x86-64 and AArch64 processors. Use cpu");
  PG_CHECK(device != "cuda" || kind_of(device), "--device cuda: this build has no such device; ",
           "build with CUDA's compiler, nvcc, or use emulator or cpu");
}

/// Once, before devices are made; see cuda/devices.h.
inline void prepare_devices(const std::string& device, int ranks, bool own) {
  if (const DeviceKind* kind = kind_of(device)) kind->prepare(ranks, own);
}

/// A rank's device. `place`: its number among the ranks of this host; `graphs`: see cuda/devices.h.
inline autograd::DevicePtr make_device(const std::string& device, int place, bool graphs = false) {
  const DeviceKind* kind = kind_of(device);
  return kind ? kind->make(place, graphs) : autograd::cpu_device();
}

}  // namespace paragrad::examples
