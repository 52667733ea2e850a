// Reports of errors in kernels and calls.
// Not here: the checks themselves, which are in the code that meets the error.
// AddressSanitizer's reports are the model: what happened, to which memory, by whom.
#pragma once

#include <string>

namespace plangrad::cuda::emulator {

/// Reports what is wrong and, in a kernel, which thread did it. Aborts, unless the settings have
/// faults remembered; a kernel's thread must then call Block::abandon.
void report(const std::string& what);

/// Returns the messages remembered since the last call.
std::string take_reports();

/// Returns a kernel's name, demangled; its address if the program is stripped of names.
std::string name_of_function(const void* function);

/// From now on an invalid access ends with a report that names the allocation it missed.
void explain_faults();
/// Explains faults as explain_faults() does, and gives this processor thread a stack on which it
/// can still report that the stack of a kernel's thread has overflowed.
void prepare_thread();

}  // namespace plangrad::cuda::emulator
