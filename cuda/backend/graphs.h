// Graphs: gathers the calls that queue a thread's work, and launches them as one CUDA graph.
// Not here: the choice of that work (the engine calls Backend::as_one_launch).
// Chapter 12; CUDA C++ Programming Guide, CUDA graphs.
#pragma once

#include <functional>
#include <list>
#include <type_traits>

#include "cuda/backend/memory.h"

namespace plangrad::cuda {

// [snippet per_launch]
/// A kernel's parameter that differs from launch to launch, as a learning rate does. In a graph the
/// kernel reads it from device memory, so that the graph can be launched again with another value.
template <class T>
struct PerLaunch {
  T value;
  const T* place = nullptr;  ///< where device memory has the value; null: nowhere

  PerLaunch(const T& value) : value(value) {}
  __device__ T get() const { return place ? *place : value; }
};
// [end snippet]

/// Keeps the calls that one thread makes while it gathers, with all their arguments; other threads
/// queue on the target as usual. A graph whose calls and arguments are those of an earlier one, to
/// the last byte, is that one, launched again: the host then makes a single call of CUDA. Another
/// graph is captured; it takes the place of the one that has waited longest among many with as many
/// nodes. So nothing is assumed of addresses: where they repeat, a graph does. Values of PerLaunch
/// may differ.
class Graphs {
 public:
  /// Gathers work of the current device, to launch it on `target`, in whose order `allocator`
  /// allocates. Both must outlive the Graphs.
  Graphs(cudaStream_t target, CachingAllocator& allocator);
  ~Graphs() { allocator_.free(value_block_, value_bytes); }

  /// Gathers what `work` queues. In a nested call, and while another thread gathers, work is queued
  /// as without graphs. If `work` throws, gathered work that is not launched yet is dropped.
  void gather(const std::function<void()>& work);
  /// Whether the calling thread gathers.
  bool gathering() const { return gatherer_ == std::this_thread::get_id(); }

  /// Keeps a call, for the thread that gathers. It may be made once, later, or never: `arguments`
  /// are values on which alone, with its type, depends what it queues on the stream. Bytes of them
  /// that have no value, between members, can only cost a capture.
  template <class Call, class... Arguments>
  void keep(Call call, const Arguments&... arguments) {
    static_assert((std::is_trivially_copyable_v<Arguments> && ...), "they are kept as bytes");
    static constexpr char type_of_call = 0;
    if (calls_.empty()) allocator_.hold_back();
    calls_.emplace_back(std::move(call));
    note(&type_of_call);
    (note(arguments), ...);
  }
  /// Moves the value of a kernel's parameter to device memory, if it is a PerLaunch, for a call
  /// that is kept next. Values for which there is no room stay arguments, which costs captures.
  template <class T>
  void move_value(T&) {}
  template <class T>
  void move_value(PerLaunch<T>& x) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof x.place == 0);
    if (values_.size() + sizeof(T) > value_bytes) return;
    x.place = reinterpret_cast<const T*>(value_block_ + values_.size());
    values_.append(reinterpret_cast<const char*>(&x.value), sizeof(T));
    x.value = T();
  }
  /// Launches what has been gathered so far.
  void begin();

  // The number of launches of graphs; of those that had to be captured; and of executable graphs.
  int begun() const { return begun_; }
  int captured() const { return captured_; }
  int made() const { return made_; }
  /// The number of nodes of the graph that was launched last.
  std::size_t nodes() const { return kept_.front().nodes; }

 private:
  struct ReadyGraph {
    ReadyGraph(std::size_t nodes, cudaGraphExec_t made) : nodes(nodes), executable(made) {}
    std::string arguments{};  // of its calls
    const std::size_t nodes;
    const Handle<cudaGraphExec_t, cudaGraphExecDestroy> executable;
  };
  static constexpr int most_alike = 32;  // with as many nodes
  static constexpr std::size_t value_bytes = 4096;

  template <class T>
  void note(const T& value) {
    if constexpr (std::is_empty_v<T>) return;  // its only byte has no value
    arguments_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  ReadyGraph& find();
  std::list<ReadyGraph>::iterator update_or_make(cudaGraph_t graph);
  cudaGraph_t capture();
  void forget() noexcept;

  const cudaStream_t target_;
  CachingAllocator& allocator_;
  Stream recorder_;
  std::atomic<std::thread::id> gatherer_{};
  std::vector<std::function<void(cudaStream_t)>> calls_;  // of the graph to come
  std::string arguments_;                                 // of all of them
  std::string values_;                                    // for value_block_
  std::byte* const value_block_;  // in device memory, where launches read their values
  Staging value_staging_;
  std::list<ReadyGraph> kept_;  // the last one launched is first
  int made_ = 0, captured_ = 0, begun_ = 0;
};

}  // namespace plangrad::cuda
