// Clock: the operations that happened before an operation, as one number per stream.
// Not here: the events that join clocks (history.cpp).
// Fidge 1988, Mattern 1989, vector clocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plangrad::cuda::emulator {

class Clock {
 public:
  /// Whether operation `number` of the stream happened before.
  bool covers(int stream, std::uint64_t number) const { return at(stream) >= number; }
  std::uint64_t at(int stream) const {
    return stream < int(reached_.size()) ? reached_[stream] : 0;
  }
  void set(int stream, std::uint64_t number) {
    reached_.resize(std::max(reached_.size(), stream + std::size_t{1}));
    reached_[stream] = number;
  }
  void join(const Clock& other) {
    for (int s = 0; s < int(other.reached_.size()); ++s) set(s, std::max(at(s), other.at(s)));
  }

 private:
  std::vector<std::uint64_t> reached_;
};

}  // namespace plangrad::cuda::emulator
