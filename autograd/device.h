// Device: one rank's kernels and modes; Storage: memory of a device; MemoryMeter: counts the bytes
// that the rank holds, by category, now and at the peak.
// Not here: globals (two ranks in one process are two Device objects that share nothing), and
// allocation, which is the backend's. Chapters 01 and 03.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
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
    double seconds;  ///< time since the timeline was started
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

class Backend;

/// One rank's device. One thread uses it at a time, with two exceptions: the meter, and Storage
/// objects, which any thread may make, for a category that it names, and delete; a rank's message
/// lane does so. Devices that share a backend may be used at the same time.
class Device {
 public:
  explicit Device(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  Backend& backend() const { return *backend_; }
  MemoryMeter& meter() { return meter_; }

  /// Whether operations record how to differentiate them; see NoGrad.
  bool records_gradients() const { return records_gradients_; }
  /// The category that new tensors are charged to; see CategoryScope.
  Category category() const { return category_; }
  /// The next number in the order in which graph nodes are made: 1, 2, 3, ...
  std::uint64_t next_sequence() { return ++sequence_; }

 private:
  friend struct NoGrad;
  friend struct EnableGrad;
  friend struct CategoryScope;

  std::shared_ptr<Backend> backend_;
  MemoryMeter meter_;
  bool records_gradients_ = true;
  Category category_ = Category::activations;
  std::uint64_t sequence_ = 0;
};

using DevicePtr = std::shared_ptr<Device>;

/// Gives a mode of a device another value during the scope's lifetime.
template <class T>
class ModeScope {
 public:
  ModeScope(T& mode, T value) : mode_(mode), before_(std::exchange(mode, value)) {}
  ~ModeScope() { mode_ = before_; }
  ModeScope(const ModeScope&) = delete;

 private:
  T& mode_;
  T before_;
};

/// During its lifetime, operations on the device record no graph.
struct NoGrad : ModeScope<bool> {
  explicit NoGrad(Device& device) : ModeScope(device.records_gradients_, false) {}
};

/// During its lifetime, operations record again, as recomputation inside a backward pass needs.
struct EnableGrad : ModeScope<bool> {
  explicit EnableGrad(Device& device) : ModeScope(device.records_gradients_, true) {}
};

/// During its lifetime, new tensors of the device are charged to `category`.
struct CategoryScope : ModeScope<Category> {
  CategoryScope(Device& device, Category category) : ModeScope(device.category_, category) {}
};

/// One allocation of a device, charged to its meter for as long as it lives.
class Storage {
 public:
  /// Allocates uninitialised bytes on the device.
  /// throws: Error if the device has too little memory left
  Storage(DevicePtr device, std::int64_t bytes, Category category);
  ~Storage() { vacate(); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const DevicePtr& device() const { return device_; }
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// Frees the memory (vacate), or allocates it again with undefined contents (occupy), while
  /// tensors and graphs still point here; the values must not be read in between. Idempotent.
  void vacate();
  void occupy();

  /// Charges the memory to another category from now on.
  void charge_to(Category category);

 private:
  DevicePtr device_;
  std::int64_t bytes_;
  Category category_;
  std::byte* data_ = nullptr;
};

}  // namespace plangrad::autograd
