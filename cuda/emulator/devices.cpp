// As many emulated devices as a run has ranks.
// Not here: the devices of ranks (cuda/devices.cpp).
#include "cuda/devices.h"

#include <algorithm>

#include "autograd/error.h"
#include "cuda/emulator/emulator.h"

namespace plangrad::cuda {

/// Each operation runs as soon as it can, so that no caller must ask for it again and again.
void prepare_devices(int ranks, bool own) {
  constexpr int most = emulator::most_devices;
  PG_CHECK(!own || ranks <= most, "--device emulator: ", ranks,
           " ranks need a device each, and there are at most ", most,
           "; use fewer ranks, or --transport threads");
  emulator::configure({.devices = std::min(ranks, most), .schedule = emulator::Schedule::eager});
}

}  // namespace plangrad::cuda
