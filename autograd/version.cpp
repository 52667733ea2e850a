// The build gives the version as a definition of this file alone, so that a commit compiles no
// more. Chapter 06.
#include "autograd/version.h"

namespace plangrad::autograd {

const char* version() { return PLANGRAD_VERSION; }

#if defined(__AVX512BF16__)
#define PLANGRAD_INSTRUCTIONS "AVX512-BF16"
#elif defined(__AVX512F__)
#define PLANGRAD_INSTRUCTIONS "AVX-512"
#elif defined(__AVX2__) && defined(__FMA__)
#define PLANGRAD_INSTRUCTIONS "AVX2 and FMA"
#else
#define PLANGRAD_INSTRUCTIONS "basic instructions"
#endif

const char* build() {
  return PLANGRAD_VERSION ", " PLANGRAD_COMPILER ", " PLANGRAD_INSTRUCTIONS ", " PLANGRAD_MPI_NAME;
}

const char* mpirun() { return PLANGRAD_MPIRUN; }

}  // namespace plangrad::autograd
