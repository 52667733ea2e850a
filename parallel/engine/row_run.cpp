// A row's facts are found once per plan, so that no cell looks them up.
// Chapters 04, 05 and 08.
#include "parallel/engine/row_run.h"

#include <algorithm>

#include "parallel/transports/transport.h"

namespace paragrad::parallel {

RowRun::RowRun(Engine& engine, const VerifiedPlan& verified, int number)
    : engine(engine),
      plan(verified.plan()),
      rank(engine.transport().rank()),
      number(number),
      row(plan.rows.at(rank)),
      capacity(verified.facts().capacity),
      tied_versions(parallel::tied_versions(plan)),
      lifetimes(plan, rank, tied_versions),
      holders(parallel::holders(plan)) {
  for (const Instruction& x : row) {
    if (makes_version(x)) stepped.insert(sum_of(x));
    if (sends(x) && x.what == Value::gradient_sum && plan.ends_step(x.micro))
      sent.insert(sum_of(x));
  }
}

StageBuffers& RowRun::stage(int stage) {
  auto& stores = engine.stores();
  if (auto found = stores.find(stage); found != stores.end()) return found->second;
  return visiting.try_emplace(stage, engine.training(), engine.form(stage), engine.device())
      .first->second;
}

std::shared_ptr<CollectiveRun> RowRun::in_group(int group, MakeCollective make, const Tensor& x,
                                                AllReduce how,
                                                CollectiveRun::Encoding encoding) const {
  const std::vector<int>& ranks = plan.groups[group];
  const auto member = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  Summing summing{how};
  if (const std::vector<int>& hosts = engine.settings().hosts; !hosts.empty())
    for (int each : ranks) summing.hosts.push_back(hosts.at(each));
  Collective steps = make(summing, static_cast<int>(member), static_cast<int>(ranks.size()));
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group),
                                         CollectiveRun::default_piece, encoding);
}

}  // namespace paragrad::parallel
