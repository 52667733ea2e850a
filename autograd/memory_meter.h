// MemoryMeter: counts the bytes that one rank holds, by category, now and at the peak.
// Not here: allocation. Storage reports to its device's meter; the backend owns the memory.
// Chapter 03.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace plangrad::autograd {

/// The purpose of an allocation; `index`: the indices of the kept elements of pruned weights.
enum class Category { weights, gradients, optimizer, activations, communication, workspace, index };
inline constexpr int category_count = 7;
const char* name_of(Category category);

class MemoryMeter {
 public:
  /// One change of the live bytes of one category.
  struct Event {
    double seconds;  ///< since the timeline was started
    Category category;
    std::int64_t live;  ///< bytes of that category after the change
  };

  /// throws: Error, and counts nothing, if the rank would hold more than the cap
  void add(Category category, std::int64_t bytes);
  void remove(Category category, std::int64_t bytes) { add(category, -bytes); }
  /// Counts bytes that are held in another category from now on; the total stays.
  void move(std::int64_t bytes, Category from, Category to);

  /// Limits the bytes held in all categories together; 0: no limit.
  void set_cap(std::int64_t bytes);

  /// Bytes held now (live), and at the worst moment since reset_peaks() (peak).
  std::int64_t live(Category category) const { return held(index_of(category)).live; }
  std::int64_t peak(Category category) const { return held(index_of(category)).peak; }
  /// Bytes held in all categories together; the total's peak is not the sum of the peaks.
  std::int64_t live() const { return held(total).live; }
  std::int64_t peak() const { return held(total).peak; }
  void reset_peaks();

  /// Forgets earlier events and records every change from now on.
  void start_timeline();
  std::vector<Event> stop_timeline();

 private:
  struct Held {
    std::int64_t live = 0, peak = 0;
  };
  static constexpr int total = category_count;  // the entry after the categories
  static int index_of(Category category) { return static_cast<int>(category); }
  void count(Category category, std::int64_t bytes);  // by the holder of the lock
  Held held(int index) const {
    std::lock_guard lock(mutex_);
    return held_[index];
  }

  mutable std::mutex mutex_;  // a rank's message lane allocates, too
  std::array<Held, category_count + 1> held_;
  std::int64_t cap_ = 0;
  bool recording_ = false;
  std::chrono::steady_clock::time_point start_;
  std::vector<Event> events_;
};

}  // namespace plangrad::autograd
