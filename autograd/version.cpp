// The build gives the version as a definition of this file alone, so that a commit compiles no
// more.
// Chapter 06.
#include "autograd/version.h"

namespace paragrad::autograd {

const char* version() { return PARAGRAD_VERSION; }

}  // namespace paragrad::autograd
