// disk_wait: waits for a disk, and says so. Not here: what is written (state_writer.h,
// commit_thread.h).
// Chapter 15.
#pragma once

#include <chrono>
#include <future>
#include <iostream>

#include "autograd/error.h"

namespace plangrad::parallel {

/// Waits for work on a disk. A disk whose host is gone may keep it for ever, so a line says after
/// each period that a save still waits.
template <class T>
T wait_for_disk(std::future<T>& work, std::chrono::milliseconds period = std::chrono::seconds(30),
                std::ostream& out = std::cerr) {
  for (auto waited = period; work.wait_for(period) != std::future_status::ready; waited += period)
    out << autograd::text("a save has waited for its disk for ", waited.count() / 1000.0,
                          " s; is the disk's host still there?\n");
  return work.get();
}

}  // namespace plangrad::parallel
