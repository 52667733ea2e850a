// See figure.h.
#include "tests/cuda/figure.h"

#include <regex>

#include "tests/figures.h"

namespace plangrad::tests {

void check_report(const std::string& name, const std::string& said) {
  // What is the same in each run and on each machine: no addresses, no folders above the sources.
  std::string plain = std::regex_replace(said, std::regex("0x[0-9a-f]+"), "0x...");
  plain = std::regex_replace(plain, std::regex("allocation [0-9]+"), "allocation ...");
  plain = std::regex_replace(plain, std::regex("stream [0-9]+"), "stream ...");
  check_printed(name, std::regex_replace(plain, std::regex("[^ (]*/(tests/cuda/)"), "$1"));
}

}  // namespace plangrad::tests
