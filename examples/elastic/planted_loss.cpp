// A thread can't be killed, so its rank throws; a process can.
// Chapter 15.
#include "examples/elastic/planted_loss.h"

#include <csignal>

#include "parallel/transports/launch.h"

namespace plangrad::parallel {

void PlantedLoss::publish(Position position) {
  if (due_.exchange(false)) {
    if (whole_process_) std::raise(SIGKILL);
    throw RankLost("is lost, as --lose asks");
  }
  inner_.publish(position);
}

}  // namespace plangrad::parallel
