// What MpiWorld is where paragrad was built without MPI: an error that says how to get it.
// Chapter 04.
#if !PARAGRAD_MPI
#include <cstdlib>

#include "autograd/error.h"
#include "parallel/transports/mpi_transport.h"

namespace paragrad::parallel {

struct MpiWorld::State {
  Transport& transport;
};

bool MpiWorld::available() { return false; }

MpiWorld::MpiWorld() {
  throw autograd::Error(
      "this paragrad was built without MPI; install it (Debian: libopenmpi-dev openmpi-bin) and "
      "build with -DPARAGRAD_MPI=ON, or use the threads transport");
}

// The rest is never reached: there is no MpiWorld.
MpiWorld::~MpiWorld() = default;
Transport& MpiWorld::transport() { return state_->transport; }
void MpiWorld::run(const std::function<void(Transport&)>& body) { body(transport()); }
void MpiWorld::abandon(int status) { std::_Exit(status); }
void MpiWorld::stop_on_sigterm() {}
void MpiWorld::told_to_stop() noexcept {}

}  // namespace paragrad::parallel
#endif
