// The wait for peers, and the thread that closes a device meanwhile.
// Not here: the calls that wait (runtime_memory.cpp).
// NCCL's issue 744.
#include "cuda/emulator/peers.h"

#include "cuda/emulator/runtime.h"
#include "cuda/emulator/scheduler.h"

namespace plangrad::cuda::emulator {

void make_peers(const std::vector<int>& devices) {
  Scheduler::Lock lock(scheduler().mutex);
  for (int device : devices)
    scheduler().devices[device].peers.insert(devices.begin(), devices.end());
}

int calls_that_may_wait(int device) {
  Scheduler::Lock lock(scheduler().mutex);
  return scheduler().devices[device].calls_that_may_wait;
}

cudaError_t wait_for_peers() {
  Scheduler& all = scheduler();
  Scheduler::Lock lock(all.mutex);
  Device& own = all.devices[current_device()];
  if (own.peers.empty()) return cudaSuccess;
  ++own.calls_that_may_wait;
  const double share = settings().peer_waits;
  if (share == 0 || std::uniform_real_distribution()(all.random) >= share) return cudaSuccess;
  all.wait_until_open(current_device(), lock);
  own.closed_by = std::this_thread::get_id();
  std::vector<Position> ends;
  for (const auto& stream : all.streams)
    if (own.peers.contains(stream->device)) ends.push_back({stream, stream->issued, stream->last});
  lock.unlock();
  const cudaError_t result = wait_result(ends);
  lock.lock();
  own.closed_by = {};
  all.changed.notify_all();
  return result;
}

}  // namespace plangrad::cuda::emulator
