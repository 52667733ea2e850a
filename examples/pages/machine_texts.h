// The machines that programs contain: examples/machines/*.txt.
// Not here: what a machine is (parallel/simulation/machine.h). Chapter 06.
#pragma once

#include <map>
#include <string>

namespace plangrad::examples {

/// The texts by name, each with the comments in front of it.
const std::map<std::string, std::string>& known_machines();

}  // namespace plangrad::examples
