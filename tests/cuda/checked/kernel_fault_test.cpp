// Faults within one launch, which the checked build reports whatever the order of threads was: each
// test plants one, and its twin without the fault is silent.
// Not here: faults between operations (order_fault_test.cpp). Chapter 12.
#include <fstream>
#include <regex>

#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/folders.h"

using namespace plangrad;
using namespace plangrad::tests;
using autograd::text;
using cuda::dynamic_shared;
using cuda::launch;

namespace {

/// Shared memory has been written, so that to read it too early is nothing but a race.
__device__ void fill(int* shared) {
  shared[threadIdx.x] = 0;
  __syncthreads();
}

__global__ void reverse(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  fill(shared);
  shared[threadIdx.x] = in[threadIdx.x];
  if (!forget) __syncthreads();
  out[threadIdx.x] = shared[127 - threadIdx.x];
}

/// Threads overwrite what others may still read.
__global__ void rotate(const int* in, int* out, bool forget) {
  int* shared = dynamic_shared<int>();
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  int next = shared[(threadIdx.x + 1) % 128];
  if (!forget) __syncthreads();
  shared[threadIdx.x] = next;
  out[threadIdx.x] = shared[threadIdx.x];
}

__global__ void swap_in_warp(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  fill(shared);
  shared[threadIdx.x] = in[threadIdx.x];
  if (!forget) __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

/// A shuffle orders nothing in memory.
__global__ void swap_by_shuffle(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  fill(shared);
  shared[threadIdx.x] = __shfl_xor_sync(~0u, in[threadIdx.x], 1);
  __shfl_sync(~0u, 0, 0);
  if (!forget) __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

__global__ void swap_between_warps(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  fill(shared);
  shared[threadIdx.x] = in[threadIdx.x];
  if (forget)
    __syncwarp();
  else
    __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x ^ 32];
}

__global__ void copy_async(const int* in, int* out, bool forget) {
  alignas(16) __shared__ int shared[128];
  if (threadIdx.x < 32) cuda::cp_async_16(shared + 4 * threadIdx.x, in + 4 * threadIdx.x);
  cuda::cp_async_commit();
  if (!forget) cuda::cp_async_wait<0>();
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}

/// After the wait, only the thread that waited sees what it has copied.
__global__ void copy_async_for_others(const int* in, int* out, bool forget) {
  alignas(16) __shared__ int shared[128];
  fill(shared);
  if (threadIdx.x < 32) cuda::cp_async_16(shared + 4 * threadIdx.x, in + 4 * threadIdx.x);
  cuda::cp_async_commit();
  cuda::cp_async_wait<0>();
  if (!forget) __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}

/// 16-bit matrices of 8 rows.
__global__ void load_fragments(const int* in, int* out, bool forget) {
  alignas(16) __shared__ int shared[128];
  fill(shared);
  shared[threadIdx.x] = in[threadIdx.x];
  if (!forget) __syncthreads();
  unsigned fragment[4];
  cuda::ldmatrix_x4(fragment, shared + 4 * (threadIdx.x % 32));
  out[threadIdx.x] = fragment[0];
}

__global__ void count_one_each(const int*, int* out, bool forget) {
  if (threadIdx.x > 0) return;
  if (forget)
    out[0] += 1;
  else
    atomicAdd(out, 1);
}

/// Each block reads what its neighbour writes.
__global__ void shift_blocks(const int* in, int* out, bool forget) {
  int own = 128 * blockIdx.x + threadIdx.x;
  out[own] = in[threadIdx.x];
  if (forget) out[own] += out[(own + 128) % 256];
}

__global__ void leave_unwritten(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  if (!forget || threadIdx.x != 7) shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}

/// A static array that is too short ends in its neighbour, where two threads then meet.
__global__ void overflow(const int* in, int* out, bool forget) {
  struct Arrays {
    int front[64], back[64];
  };
  __shared__ Arrays shared;
  int* front = shared.front;
  int* back = shared.back;
  if (threadIdx.x < 64) back[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x >= 64) front[threadIdx.x - (forget ? 0 : 64)] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = front[threadIdx.x];
}

__global__ void leave_dynamic_unwritten(const int* in, int* out, bool forget) {
  int* shared = dynamic_shared<int>();
  if (!forget || threadIdx.x != 7) shared[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = shared[threadIdx.x];
}

__global__ void pass_the_end_of_shared(const int* in, int* out, bool forget) {
  dynamic_shared<int>()[threadIdx.x + (forget ? 1 : 0)] = in[threadIdx.x];
  out[threadIdx.x] = 0;
}

__global__ void go_before_the_start(const int* in, int* out, bool forget) {
  out[int(threadIdx.x) - (forget ? 1 : 0)] = in[threadIdx.x];
}

__global__ void pass_the_end(const int* in, int* out, bool forget) {
  out[threadIdx.x + (forget ? 129 : 0)] = in[threadIdx.x];
}

using Kernel = void (*)(const int*, int*, bool);

/// A report with the source's lines in place of their numbers.
std::string with_lines(std::string said) {
  const std::regex place("\\([^ (]*/(tests/[^:)]*):([0-9]+)\\)");
  for (std::smatch found; std::regex_search(said, found, place);) {
    std::ifstream file(clone_path(found.str(1)));
    std::string line;
    for (int i = std::stoi(found[2]); i > 0; --i) std::getline(file, line);
    said.replace(found.position(), found.length(),
                 text('(', line.substr(line.find_first_not_of(' ')), ')'));
  }
  return said;
}

/// What is said of two blocks, or one, of 128 threads.
std::string reports_of(Kernel kernel, bool forget, Order order, int blocks = 1) {
  Settings settings = faulty();
  settings.order = order;
  Machine machine(settings);
  DeviceArray<int> in(std::vector<int>(128, 1)), out(std::vector<int>(256));
  launch(kernel, blocks, 128, 512, nullptr, in, out, forget);
  const bool failed = cudaDeviceSynchronize() != cudaSuccess;
  const std::string said = cuda::emulator::reset();
  CHECK(failed == !said.empty());
  return said;
}

/// Fails unless every order reports the race, with the lines of both sides, and none reports its
/// twin.
void check_race(Kernel kernel, const char* one, const char* other, const char* missing,
                int blocks = 1) {
  CAPTURE(one);
  for (Order order : all_orders) {
    CHECK(reports_of(kernel, false, order, blocks) == "");
    const std::string said = with_lines(reports_of(kernel, true, order, blocks));
    CHECK_THAT(said, Contains("race: ") && Contains(missing) && Contains(", which "));
    CHECK_THAT(said, Contains(one) && Contains(other));
  }
}

void check_fault(Kernel kernel, const char* words) {
  for (Order order : all_orders) {
    CHECK(reports_of(kernel, false, order) == "");
    CHECK_THAT(with_lines(reports_of(kernel, true, order)), Contains(words));
  }
}

constexpr auto write_own = "(shared[threadIdx.x] = in[threadIdx.x];)";

}  // namespace

TEST_CASE("checked: a missing barrier is a race in every order") {
  const auto barrier = "; __syncthreads must stand between";
  const auto either = "; __syncwarp or __syncthreads must stand between";
  check_race(reverse, write_own, "shared[127 - threadIdx.x];)", barrier);
  check_race(rotate, "(int next =", "(shared[threadIdx.x] = next;)", "__syncthreads must stand");
  check_race(swap_in_warp, write_own, "shared[threadIdx.x ^ 1];)", either);
  check_race(swap_by_shuffle, "__shfl_xor_sync(", "shared[threadIdx.x ^ 1];)", either);
  check_race(swap_between_warps, write_own, "shared[threadIdx.x ^ 32];)", barrier);
  check_race(load_fragments, write_own, "(cuda::ldmatrix_x4(", "__syncthreads must stand");
}

TEST_CASE("checked: an asynchronous copy must be waited for, and then met at a barrier") {
  check_fault(copy_async,
              "(out[threadIdx.x] = shared[threadIdx.x];), where an asynchronous copy is to arrive");
  check_race(copy_async_for_others, "cuda::cp_async_", "(out[threadIdx.x] = shared[threadIdx.x];)",
             "__syncthreads must stand");
}

TEST_CASE("checked: blocks that use the same memory race unless all are atomic") {
  const auto blocks = "; blocks of a launch have no order";
  check_race(count_one_each, "(out[0] += 1;)", "(out[0] += 1;)", blocks, 2);
  check_race(shift_blocks, "(out[own] = in[threadIdx.x];)", "out[(own + 128) % 256];)", blocks, 2);
}

TEST_CASE("checked: what nobody has written is not read") {
  check_fault(leave_unwritten,
              "reads static shared memory (out[threadIdx.x] = shared[threadIdx.x];), which nobody");
  check_fault(leave_dynamic_unwritten,
              "reads byte 28 of dynamic shared memory (out[threadIdx.x] =");
}

TEST_CASE("checked: the end of an array in static shared memory shows in its neighbour") {
  check_race(overflow, " back[threadIdx.x] = in", " front[threadIdx.x - ",
             "__syncthreads must stand between");
}

TEST_CASE("checked: an access outside of an allocation is found to the byte") {
  check_fault(pass_the_end, "0 bytes past the end of allocation");
  check_fault(go_before_the_start, "invalid access to ");
  check_fault(pass_the_end_of_shared, "which is not memory of a device (dynamic_shared<int>()[");
}
