// A thread speaks for the rank while it works.
// Chapter 04.
#include "parallel/transports/at_work.h"

#include <exception>

namespace paragrad::parallel {

AtWork::AtWork(Transport& transport, Work work)
    : transport_(transport), position_(transport.position(transport.rank())) {
  transport_.publish({.work = work});
  thread_ = std::thread([this] { give_signs_of_life(); });
}

AtWork::~AtWork() {
  over_ = true;
  transport_.wake();
  thread_.join();
  transport_.publish(position_);
}

/// A transport tells the others where this rank is whenever somebody waits in it.
void AtWork::give_signs_of_life() try {
  while (!over_) transport_.wait(1);
} catch (const std::exception&) {  // the next to use the transport meets the same
}

std::string work_at(Position position) {
  static constexpr const char* names[] = {"", "preparing", "saving", "reporting"};
  return names[static_cast<std::size_t>(position.work)];
}

bool others_at_work(const Transport& transport, double seconds) {
  for (int rank = 0; rank < transport.size(); ++rank)
    if (rank != transport.rank() && !work_at(transport.position(rank)).empty() &&
        transport.silence(rank) < seconds)
      return true;
  return false;
}

}  // namespace paragrad::parallel
