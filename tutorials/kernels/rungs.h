// The list of the ladders and their rungs: what each computes, by which idea, and what it has to
// move and to compute at least. Tests, benchmarks and pages walk it, and have no list of their own.
// Not here: kernels (ladder.h names them).
// Chapter 12.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace plangrad::cuda::kernels {

/// The sizes of a task; a ladder names those that it has, and ignores others.
using Sizes = std::array<int, 3>;

/// Where a rung finds its numbers, in device memory.
struct Operands {
  std::vector<const void*> inputs;  ///< `Rung::input_bytes` for each element
  float* output = nullptr;
  float* scratch = nullptr;
  Sizes sizes{};
};

struct Rung {
  int number;
  std::string name;   ///< the rung's word in the names of its file and function
  std::string file;   ///< the file's path from the repository's root on
  std::string idea;   ///< what it does that the rung before doesn't
  std::string limit;  ///< what it waits for
  void (*run)(const Operands&, cudaStream_t);
  int input_bytes = 4;  ///< bytes of an element: 4 is f32, 2 bf16
  bool hopper = false;  ///< has instructions of compute capability 9.0 only, and takes only rows of
                        ///< a multiple of 16 bytes, at such addresses

  /// Why the rung can't run in this build, on the current device; empty if it can.
  std::string why_not() const;
};

/// Rungs that compute the same, in order.
struct Ladder {
  std::string name;
  std::string formula;
  std::vector<std::string> size_names;
  Sizes small, large;  ///< sizes to measure at, on an emulator and on a GPU
  std::vector<std::int64_t> (*inputs)(const Sizes&);  ///< the number of elements of each
  std::int64_t (*output)(const Sizes&);               ///< elements, in f32
  std::int64_t (*scratch)(const Sizes&);              ///< elements, as many as any rung needs
  double (*flops)(const Sizes&);                      ///< additions, multiplications, exponentials
  /// The most that results may be off, for inputs in [-1,1] of this many bytes: the number of
  /// roundings, times the magnitude of what is rounded.
  double (*tolerance)(const Sizes&, int input_bytes);
  std::vector<Rung> rungs;

  /// The bytes of the inputs and the output: what any kernel must move, if it moves them once.
  double least_bytes(const Rung& rung, const Sizes& sizes) const;
};

/// All ladders.
const std::vector<Ladder>& ladders();

}  // namespace plangrad::cuda::kernels
