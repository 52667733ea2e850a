// What every transport must do, and collectives on it: run on threads by transport_suite_test.cpp,
// and on processes by mpi/checks.cpp. All ranks call a check together; it throws where it fails.
#pragma once

#include "parallel/transport.h"

namespace paragrad::tests {

/// Messages, positions, deadlines, bad requests.
void transport_checks(parallel::Transport& transport);
/// Every collective, bit for bit against the documented order of its sums.
void collective_checks(parallel::Transport& transport);

}  // namespace paragrad::tests
