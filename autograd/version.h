// version: which plangrad this is.
// Not here: the machine that it runs on (parallel/observers/recording.h). Chapter 06.
#pragma once

namespace plangrad::autograd {

/// The project's version and, if the sources are a git clone, the commit that was built:
/// "0.1.0 (3f2f9d7)"; "-dirty" behind it says that files were changed when its first build began.
const char* version();

/// Names what a program's results depend on besides its input: the version, the compiler, the
/// processor's instructions that it may use, and MPI:
/// "0.1.0 (3f2f9d7), GNU 12.2.0, AVX-512, MPI 3.1".
const char* build();

/// Returns the command that starts processes of the MPI that programs are built with; "mpirun" if
/// there is none.
const char* mpirun();

}  // namespace plangrad::autograd
