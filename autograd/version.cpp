// The build gives the version as a definition of this file alone, so that a commit compiles no
// more.
// Chapter 06.
#include "autograd/version.h"

namespace paragrad::autograd {

const char* version() { return PARAGRAD_VERSION; }

#if defined(__AVX512BF16__)
#define PARAGRAD_INSTRUCTIONS "AVX512-BF16"
#elif defined(__AVX512F__)
#define PARAGRAD_INSTRUCTIONS "AVX-512"
#elif defined(__AVX2__) && defined(__FMA__)
#define PARAGRAD_INSTRUCTIONS "AVX2 and FMA"
#else
#define PARAGRAD_INSTRUCTIONS "basic instructions"
#endif

const char* build() {
  return PARAGRAD_VERSION ", " PARAGRAD_COMPILER ", " PARAGRAD_INSTRUCTIONS ", " PARAGRAD_MPI_NAME;
}

const char* mpirun() { return PARAGRAD_MPIRUN; }

}  // namespace paragrad::autograd
