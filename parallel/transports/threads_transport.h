// Ranks as threads of one process: no MPI, works in a debugger and under a thread sanitizer.
// Not here: starting the threads (launch). Chapter 04.
#pragma once

#include "parallel/transports/transport.h"

namespace plangrad::parallel {

/// Connects `ranks` threads. It must outlive the requests made through it.
///   capacity 0: rendezvous. A send completes once its receive is posted. The rank that comes
///               second copies the bytes, straight from the sender's memory to the receiver's.
///   capacity c: buffered. A send completes at once while fewer than c messages of its sender,
///               receiver and channel wait for a receive. The bytes are copied twice.
/// If the two ends of a message differ in size, done() throws on both, except for a sender whose
/// bytes were buffered. A request that is destroyed before it is done is withdrawn.
class ThreadsWorld {
 public:
  explicit ThreadsWorld(int ranks, int capacity = 0);
  ~ThreadsWorld();

  int size() const;
  /// throws: Error if there is no such rank
  Transport& transport(int rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plangrad::parallel
