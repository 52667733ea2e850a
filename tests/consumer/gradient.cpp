// A tensor and its gradient, by plangrad::autograd alone. Chapter 01.
#include <cstdio>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"

using namespace plangrad::autograd;

int main() {
  Tensor x = variable(from_host(std::vector<float>{1, 2, 3, 4}, {2, 2}, cpu_device()));
  Tensor y = sum(matmul(x, x));
  backward(y);
  std::printf("y = %g, dy/dx sums up to %g\n", item(y), item(sum(gradient(x))));
}
