// FarTransport: a rank's seat, from which the others were heard of 100 s ago.
// Not here: what is made of that (at_work_test.cpp, failures_test.cpp).
#pragma once

#include "parallel/transports/launch.h"

namespace plangrad::tests {

using namespace plangrad::parallel;

struct FarTransport : TransportAround {
  using TransportAround::TransportAround;
  const char* name() const override { return "far"; }
  double silence(int) const override { return 100; }
};

}  // namespace plangrad::tests
