// The macros PARAGRAD_EMULATOR and PARAGRAD_CUDA, which CMake sets for this library, say what this
// build has.
// Chapter 04.
#include "examples/common/rank_device.h"

#include "autograd/cpu/cpu_backend.h"
#include "examples/common/program.h"

namespace paragrad::examples {

const DeviceKind* kind_of([[maybe_unused]] const std::string& device) {
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

void add_device_flag(Flags& flags, std::string& device) {
  std::string built = "this build has cpu";
  for (const char* name : {"cuda", "emulator"})
    if (kind_of(name)) built += text(", ", name);
  flags.choice("--device", device, {"cpu", "cuda", "emulator"}, built.c_str());
}

void check_device(const std::string& device) {
  PG_CHECK(device != "emulator" || kind_of(device), "--device emulator: this build has no such ",
           "device; the emulator is written for x86-64 and AArch64 processors. Use cpu");
  PG_CHECK(device != "cuda" || kind_of(device), "--device cuda: this build has no such device; ",
           "build with CUDA's compiler, nvcc, or use emulator or cpu");
}

void prepare_devices(const std::string& device, int ranks, bool own) {
  if (const DeviceKind* kind = kind_of(device)) kind->prepare(ranks, own);
}

autograd::DevicePtr make_device(const std::string& device, int place, bool graphs) {
  const DeviceKind* kind = kind_of(device);
  return kind ? kind->make(place, graphs) : autograd::cpu_device();
}

}  // namespace paragrad::examples
