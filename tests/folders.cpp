// See folders.h.
#include "tests/folders.h"

namespace plangrad::tests {

std::string clone_path(const std::string& inside) { return PLANGRAD_SOURCE_DIR "/" + inside; }

std::string program_path(const std::string& inside) { return PLANGRAD_PROGRAM_DIR "/" + inside; }

}  // namespace plangrad::tests
