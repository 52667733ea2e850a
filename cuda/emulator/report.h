// Reports of errors in kernels and calls.
// Not here: the checks themselves, which are in the code that meets the error.
// AddressSanitizer's reports are the model: what happened, to which memory, by whom.
#pragma once

#include <string>

namespace paragrad::cuda::emulator {

/// Says what is wrong and, in a kernel, which thread did it. Aborts, unless the settings have
/// faults remembered; then a kernel's thread must Block::abandon.
void report(const std::string& what);

/// The messages remembered since the last call.
std::string take_reports();

/// A kernel's name, demangled; its address where the program has been stripped of names.
std::string name_of_function(const void* function);

/// From now on an invalid access ends with a report that names the allocation it missed.
void explain_faults();
/// The same, and gives this processor thread a stack on which it can still report that a kernel's
/// has overflowed.
void prepare_thread();

}  // namespace paragrad::cuda::emulator
