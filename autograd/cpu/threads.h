// How many threads the CPU's kernels may use, for each thread that calls them.
// Not here: how a loop is cut into pieces (autograd/cpu/parallel.h).
// Chapter 03.
#pragma once

namespace paragrad::autograd {

/// Limits the kernels that the calling thread runs from now on, products by oneDNN among them.
/// Ranks that are threads of one process share its cores this way. Without OpenMP a kernel has one
/// thread, whatever the limit.
/// throws: Error if n is not positive
void set_compute_threads(int n);

/// The limit of the calling thread; before it is set, OpenMP's, which is all cores.
int compute_threads();

}  // namespace paragrad::autograd
