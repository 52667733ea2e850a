// Ranks as processes, on one host or several, over MPI.
// Not here: starting them; that is mpirun's or srun's work. MPI's types stay in the .cpp file.
// Chapter 04.
#pragma once

#include <functional>

#include "parallel/transports/transport.h"

namespace plangrad::parallel {

/// This process's membership of an MPI job; a process has one. Only the thread that drives the
/// transport calls MPI, so one thread at a time; publish(), fail() and wake() leave it notes. MPI
/// may still use the memory of a request that is destroyed before it is done: a rank that gives up
/// must end soon, as run() makes it.
class MpiWorld {
 public:
  /// Joins the job. Ends the process with a message if other ranks do not join within `seconds`.
  /// throws: Error if plangrad was built without MPI, or if the process was started as one of
  ///         several ranks and this MPI knows nothing of the others (it is not that mpirun's MPI)
  explicit MpiWorld(double seconds = 300);
  /// Waits for the others and leaves in good order; after a failure, just leaves.
  ~MpiWorld();

  Transport& transport() { return *transport_; }

  /// Prints what an error's rank reports, and returns the status with which its process ends.
  using Reporter = std::function<int(const std::string& report, const std::exception&)>;
  /// Runs body(transport()). If it throws, reports that, tells the others and gives them two
  /// seconds to stop too, flushes the output, and ends the process.
  ///   reporter: null: prints to stderr, and the status is 1
  void run(const std::function<void(Transport&)>& body, const Reporter& reporter = nullptr);

  /// Open MPI's mpirun sends SIGTERM to all ranks as soon as one has died, and when the user
  /// interrupts it; a second later (OMPI_MCA_odls_base_sigkill_timeout) it kills them. MPICH's
  /// kills them at once. After this call, the first SIGTERM calls the handler that was there
  /// before. If a rank is silent then for half of that time, failure() says so, which ends every
  /// wait with a report. A second SIGTERM ends the process as usual.
  static void stop_on_sigterm();

 private:
  std::unique_ptr<Transport> transport_;
};

}  // namespace plangrad::parallel
