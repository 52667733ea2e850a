// PretendFlags: the flags that give a run the times of devices and links that it does not have.
// Not here: what these do to a run (engine/pretended.h). Chapter 06.
#pragma once

#include "parallel/engine/pretended.h"
#include "parallel/simulation/machine.h"

namespace plangrad::examples {

class Flags;

struct PretendFlags {
  std::string compute, link;  ///< as typed; empty or "none": nothing is pretended
  bool cards = false;
  std::string machine = {};  ///< a name or a file, instead of `link`

  void add_flags(Flags& flags);
  /// Checks what needs neither stages nor ranks. `threads`: ranks are threads of one process.
  /// throws: Error if a flag can't be read, or does not fit the others
  void check(const std::string& device, const std::string& transport, int ranks_per_host) const;
  /// throws: Error if there are times for another number of stages, or links without messages
  parallel::Pretended found(int stages, int ranks, int ranks_per_host) const;
};

/// The network of pretended links; null if links are as they are. `one_process`: all ranks use it.
std::shared_ptr<parallel::PretendedNetwork> network_of(const parallel::Pretended& pretended,
                                                       bool one_process);

}  // namespace plangrad::examples
