// What ranks say of their run is compared as JSON, so that the difference has a name.
// Chapter 05.
#include "parallel/session/agreement.h"

#include <nlohmann/json.hpp>
#include <set>

#include "autograd/error.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

using nlohmann::json;

void check_agreement(Transport& transport, const json& run, double timeout) {
  json own = run;
  for (const char* path : {"--data", "--validation"})  // hosts may keep the same text elsewhere
    if (own.contains("flags")) own["flags"].erase(path);
  const std::vector<std::string> all = all_gather_bytes(transport, own.dump(), timeout);
  const json first = json::parse(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const json difference = json::diff(first, json::parse(all[rank]));
    PG_CHECK(difference.empty(), "rank ", rank, " was started with another ",
             difference[0].at("path").get<std::string>(),
             " than rank 0: ", difference[0].value("value", json()).dump(),
             "; start all ranks with the same flags and data");
  }
}

void check_hosts(const Plan& plan, const std::vector<int>& hosts) {
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) {
      if (x.op != Op::reduce || x.what != Value::gradient_sum || x.peer < 0) continue;
      const std::vector<int>& group = plan.groups[x.peer];
      std::set<int> own;
      for (int rank : group) own.insert(hosts.at(rank));
      if (own.size() > 1 && own.size() < group.size()) return;
    }
  throw autograd::Error(
      "--reduction hierarchical: no group that sums up gradients has two ranks on one host and "
      "others elsewhere, so it would do what scatter does; use --reduction scatter, or say with "
      "--ranks-per-host N which ranks to take for a host");
}

}  // namespace paragrad::parallel
