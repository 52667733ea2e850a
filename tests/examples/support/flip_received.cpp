// A library that is loaded before a program of several processes (LD_PRELOAD) and flips a bit of
// each long message of values that its process receives, as a bad network or memory would.
// Not here: who must notice (processes_test.cpp). Chapter 05.
#include <mpi.h>

#include <map>
#include <mutex>

#include "parallel/transports/transport.h"

namespace {

std::mutex mutex;
std::map<MPI_Request*, std::uint32_t*> receiving;

}  // namespace

extern "C" {

int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  std::lock_guard lock(mutex);
  if (count > 1000 && tag < plangrad::parallel::control_channel)
    receiving[request] = static_cast<std::uint32_t*>(data);
  return PMPI_Irecv(data, count, type, source, tag, comm, request);
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const int code = PMPI_Test(request, flag, status);
  std::lock_guard lock(mutex);
  const auto found = receiving.find(request);
  if (!*flag || found == receiving.end()) return code;
  *found->second ^= 1u << 20;
  receiving.erase(found);
  return code;
}

}  // extern "C"
