// Groups: collectives of a plan's groups, as this rank takes part in them.
// Not here: the lists of exchanges (collectives/collective.h), and when they run (mailbox.h).
// Chapter 04.
#pragma once

#include <memory>

#include "parallel/collectives/collective_run.h"
#include "parallel/engine/row_view.h"

namespace paragrad::parallel {

using MakeCollective = Collective (*)(const Summing& how, int member, int members);

class Groups {
 public:
  /// `row` must outlive it. `hosts`: by rank; empty: all are on one host.
  Groups(const RowView& row, std::vector<int> hosts) : row_(row), hosts_(std::move(hosts)) {}

  std::shared_ptr<CollectiveRun> run(MakeCollective make, int group, const Tensor& x, AllReduce how,
                                     CollectiveRun::Encoding encoding = {nullptr, 0}) const;

 private:
  const RowView& row_;
  std::vector<int> hosts_;
};

}  // namespace paragrad::parallel
