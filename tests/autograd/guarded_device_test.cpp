// The guarded device: it guards, and every operation gives the CPU's bits on it.
#include "tests/guarded_device.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// Runs f in a process of its own; the signal that ended it, or 0.
template <class F>
int signal_of(F f) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // Catch and sanitizers have handlers that would report it
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("guarded device: the host can't read or write its memory", "[guarded]") {
  Tensor x = floats({1, 2}, {2}, guarded_device());
  CHECK(signal_of([&] { (void)*const_cast<volatile float*>(x.data<float>()); }) == SIGSEGV);
  CHECK(signal_of([&] { *const_cast<volatile float*>(x.data<float>()) = 3; }) == SIGSEGV);
  CHECK(to_host(x) == Numbers{1, 2});
  Tensor y = floats({1, 2}, {2}, cpu_device());
  CHECK(signal_of([&] { *const_cast<volatile float*>(y.data<float>()) = 3; }) == 0);
}

TEST_CASE("guarded device: an error inside a kernel locks again", "[guarded]") {
  DevicePtr device = guarded_device();
  Tensor x = floats({1, 2}, {2}, device), ids = integers({1}, {1}, device);
  CHECK_THROWS(device->backend().unary(Unary::exp, ids, ids));
  CHECK(signal_of([&] { *const_cast<volatile float*>(x.data<float>()) = 3; }) == SIGSEGV);
}

TEST_CASE("guarded device: work of the host is locked out, and kernels in it are not",
          "[guarded]") {
  DevicePtr device = guarded_device();
  Tensor x = floats({1, 2}, {2}, device);
  CHECK(signal_of([&] {
          device->backend().as_one_launch(
              [&] { *const_cast<volatile float*>(x.data<float>()) = 3; });
        }) == SIGSEGV);
  device->backend().as_one_launch([&] { x.backend().fill(4, x); });
  CHECK(to_host(x) == Numbers{4, 4});
}

TEST_CASE("guarded device: every operation gives the CPU's bits", "[guarded]") {
  for (const char* file :
       {"arithmetic", "attention", "image", "layout", "matmul", "reduce", "rows"})
    for (const OpCase& op : op_cases(file))
      for (DType dtype : {DType::f32, DType::bf16}) {
        INFO(op.name << " in " << dtype);
        bool same = run_op(op, dtype, guarded_device()) == run_op(op, dtype, cpu_device());
        CHECK(same);
      }
}

TEST_CASE("guarded device: what it allocates it gets back", "[guarded]") {
  DevicePtr device = guarded_device(4096);
  for (int i = 0; i < 100; ++i) CHECK(zeros({900}, DType::f32, device).defined());
  CHECK_THROWS_WITH(zeros({1100}, DType::f32, device), Contains("4096 bytes are full"));
}
