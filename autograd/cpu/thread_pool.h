// ThreadPool: the threads that help one thread with the loops of its kernels. Whoever is free takes
// the next piece, so that a helper without a core keeps no one waiting: its pieces go to others.
// A thread that waits looks again and again for some microseconds, which is quicker than to be
// woken, and then sleeps, so that other programs of the machine get its core.
// Not here: what a piece is (parallel.h). Chapter 03.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace plangrad::autograd::cpu {

class ThreadPool {
 public:
  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// The calling thread's pool; its helpers end with the thread.
  static ThreadPool& mine();
  /// Whether the calling thread is in a piece of a loop; loops inside it are not divided.
  static bool is_inside() { return inside; }
  /// The calling thread's number among the threads of its loop: 0, 1, 2, ...
  static int place() { return own_place; }

  /// Calls body(piece) for each piece in [0, pieces), in at most `threads` threads, the calling one
  /// among them. The body must not throw.
  template <class Body>
  void run(int threads, std::int64_t pieces, Body&& body) {
    loop_ = {[](void* all, std::int64_t piece) { (*static_cast<Body*>(all))(piece); }, &body,
             pieces, threads};
    run_loop();
  }

 private:
  struct Loop {
    void (*call)(void* body, std::int64_t piece) = nullptr;
    void* body = nullptr;
    std::int64_t pieces = 0;
    int threads = 0;
  };
  static constexpr std::uint32_t open = 1u << 31;

  void run_loop();
  void help(int place);
  bool join();
  void leave();
  void take_pieces();

  inline static thread_local bool inside = false;
  inline static thread_local int own_place = 0;

  Loop loop_;  // helpers read it while state_ counts them
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::uint32_t> state_ = 0;  // `open` while helpers may join; plus those that have
  std::atomic<std::uint32_t> loops_ = 0;  // begun so far
  std::atomic<bool> ends_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace plangrad::autograd::cpu
