// The emulated machine: the settings that a program may choose, and the reports of faults.
// Not here: CUDA's own functions, which have their own names in cuda_runtime.h and other headers of
// this folder. The emulator proves that a kernel is right; it does not tell how fast it is.
//
// The emulator is a house of its own inside cuda/: headers with the toolkit's names, so that the
// .cu files that nvcc compiles are compiled by the host's compiler, too, and run on its processor.
// fiber.h, block.h, grid.cpp       threads of a block as fibers; barriers and warp operations
// stream.h, scheduler.h            streams, events and graphs, in orders that tests choose
// runtime.h                        the runtime's calls; those that wait for other devices' work
// device_memory.h                  memory whose borders are guarded
// cublasLt.h, nccl.h               products by oneDNN; NCCL between threads, or processes
// observer.h, observed/            accesses to memory, for the two builds that look at each of them
// checked/, counted/               the one that searches for races; the one that counts
// A student without a GPU can step through a kernel in a debugger; tests/cuda is its test.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace plangrad::cuda::emulator {

/// The order in which the blocks of a grid, and the threads of a block between two barriers, run. A
/// correct kernel computes the same in each.
enum class Order { forward, reverse, random };

/// When queued operations run. eager: as soon as they can. lazy: when something waits for them, so
/// that a forgotten synchronisation always shows. random: some of them at each call, by the seed.
enum class Schedule { eager, lazy, random };

constexpr int most_devices = 64;

struct Settings {
  int devices = 8;                                    ///< each with its own memory and streams
  std::int64_t device_bytes = std::int64_t{1} << 30;  ///< cudaMalloc refuses more than this
  int compute_capability = 90;                        ///< 10 major + minor, as devices name theirs
  Order order = Order::forward;
  Schedule schedule = Schedule::lazy;
  std::uint64_t seed = 1;      ///< seed of the random order, the random schedule and the refusals
  double refused_updates = 0;  ///< share of graph updates that CUDA refuses though nodes are alike
  double patience = 30;        ///< seconds without any progress until a wait counts as a deadlock
  bool abort_on_fault = true;  ///< false: remember faults, for tests; see reset
  int queues = 8;              ///< hardware queues of a device, which its streams share in turn
  /// The share of the calls that allocate or free memory, all but the asynchronous ones, that wait
  /// for the devices of common communicators (runtime.h), drawn by the seed.
  double peer_waits = 0;
  /// The share of aborted communicators of which NCCL tells the other ranks nothing.
  double silent_aborts = 0;
  /// A device carries out one operation of NCCL at a time: the first of them that can begin.
  bool one_nccl_operation = false;
};

/// Gives the machine these settings, at a moment when no other thread uses it.
/// throws: Error if operations are queued, or a setting has no meaning
void configure(const Settings& settings);
const Settings& settings();

/// The number of products since configure() whose operands a GPU can't load 16 bytes at a
/// time, so that it takes slower kernels: an address, or the bytes from one column or matrix to the
/// next, is no multiple of 16.
std::int64_t misaligned_products();
/// The number of times that a host thread has waited for work of a device that was not complete:
/// most times that it waits at all, if the schedule is lazy.
std::int64_t host_waits();

/// Drops all queued operations, forgets streams, events and errors, and returns the messages of the
/// remembered faults. Only memory stays until it is freed.
/// A fault abandons the stacks of its block's threads: what their variables own is lost.
std::string reset();

/// Reports what is wrong and, in a kernel, which thread did it. Aborts, unless the settings have
/// faults remembered; a kernel's thread must then call Block::abandon.
void report(const std::string& what);
/// Reports what `words` returns, which no observer takes for the kernel's own work.
void report(const std::function<std::string()>& words);

/// Returns the messages remembered since the last call.
std::string take_reports();

/// Returns a kernel's name, demangled; its address if the program is stripped of names.
std::string name_of_function(const void* function);

/// From now on an invalid access ends with a report that names the allocation it missed.
void explain_faults();
/// Explains faults as explain_faults() does, and gives this processor thread a stack on which it
/// can still report that the stack of a kernel's thread has overflowed.
void prepare_thread();

}  // namespace plangrad::cuda::emulator
