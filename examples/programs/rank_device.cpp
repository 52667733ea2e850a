// Maps --device to the functions of cuda/devices.h. CMake sets the macros PLANGRAD_EMULATOR and
// PLANGRAD_CUDA for this file where the build has these devices. Chapter 04.
#include "examples/programs/rank_device.h"

#include "autograd/cpu/cpu_backend.h"
#include "examples/programs/program.h"

namespace plangrad::examples {

/// Returns the kind of device, or null if this build lacks it.
static const DeviceKind* find_device(const std::string& device) {
  static constexpr DeviceKind cpu{
      [](int, bool) {}, [](int, bool, bool) { return autograd::cpu_device(); },
      [](auto&, const auto&, bool, double) { return std::unique_ptr<parallel::Transport>(); }};
  if (device == "cpu") return &cpu;
#if PLANGRAD_EMULATOR
  static constexpr DeviceKind emulated{cuda_emulated::prepare_devices, cuda_emulated::make_device,
                                       cuda_emulated::make_transport};
  if (device == "emulator") return &emulated;
#endif
#if PLANGRAD_CUDA
  static constexpr DeviceKind gpus{cuda::prepare_devices, cuda::make_device, cuda::make_transport};
  if (device == "cuda") return &gpus;
#endif
  return nullptr;
}

const DeviceKind& device_kind(const std::string& device) {
  const DeviceKind* kind = find_device(device);
  PG_CHECK(kind || device != "emulator", "--device emulator: this build has no such device. Where ",
           "the processor is x86-64 or AArch64, this adds it: cmake --preset release ",
           "-DPLANGRAD_EMULATOR=ON && cmake --build --preset release");
  PG_CHECK(kind, "--device ", device, ": this build has no such device; build with CUDA's ",
           "compiler, nvcc, or use emulator or cpu");
  return *kind;
}

void add_device_flag(Flags& flags, std::string& device) {
  std::string built = "where ranks compute; this build has cpu";
  for (const char* name : {"cuda", "emulator"})
    if (find_device(name)) built += text(", ", name);
  flags.choice("--device", device, {"cpu", "cuda", "emulator"}, built.c_str());
}

}  // namespace plangrad::examples
