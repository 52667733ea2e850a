// At work: between plans a rank may be busy on its own for long, with files as a rule. It says so,
// and the others wait for it as long as they hear of it, whatever their deadline.
// Not here: waiting (launch.h). Chapter 04.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "parallel/transports/transport.h"

namespace paragrad::parallel {

/// Publishes what this rank works on, and gives signs of life, as long as it lives. Only its thread
/// uses the transport meanwhile; no message may be under way.
class AtWork {
 public:
  AtWork(Transport& transport, Work work);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  void give_signs_of_life();

  Transport& transport_;
  Position position_;  // to go back to
  std::atomic<bool> over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

/// "saving", if that is what a position says; "" if it is one in a plan.
std::string work_at(Position position);

/// Whether another rank is at work and was heard of in the last so many seconds.
bool others_at_work(const Transport& transport, double seconds);

}  // namespace paragrad::parallel
