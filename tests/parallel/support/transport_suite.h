// What every transport must do, and collectives on it: run on threads by
// threads_transport_test.cpp, and on processes by mpi/checks.cpp. All ranks call a check together;
// it throws where it fails.
#pragma once

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/transport.h"

namespace plangrad::tests {

/// Messages, positions, deadlines, bad requests. Messages are in the device's memory.
void transport_checks(parallel::Transport& transport, const autograd::DevicePtr& device);
/// Every collective, bit for bit against the documented order of its sums. Less of it if it is to
/// be `quick`.
void collective_checks(parallel::Transport& transport, const autograd::DevicePtr& device,
                       bool quick = false);

/// In the host's memory.
inline void transport_checks_on_host(parallel::Transport& transport) {
  transport_checks(transport, autograd::cpu_device());
}
inline void collective_checks_on_host(parallel::Transport& transport) {
  collective_checks(transport, autograd::cpu_device());
}

}  // namespace plangrad::tests
