// In which order each form of reduction promises to add, written out: what collectives are checked
// against, with symbols and with numbers.
#pragma once

#include "parallel/collectives/collective.h"

namespace plangrad::tests {

/// The sum of leaf(member) over the members, for one chunk; `add` makes a + b.
template <class Leaf, class Add>
auto promised_sum(const parallel::Summing& how, int members, int chunk, Leaf leaf, Add add) {
  using Value = decltype(leaf(0));
  auto in_order = [&](const std::vector<Value>& values) {
    Value sum = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) sum = add(sum, values[i]);
    return sum;
  };
  std::vector<Value> values;
  for (int i = 0; i < members; ++i)
    values.push_back(leaf(how.how == parallel::AllReduce::ring ? (chunk + 1 + i) % members : i));
  if (name_of(how.how) == "tree")
    while (values.size() > 1) {
      std::vector<Value> pairs;
      for (std::size_t i = 0; i < values.size(); i += 2)
        pairs.push_back(i + 1 < values.size() ? add(values[i], values[i + 1]) : values[i]);
      values = pairs;
    }
  if (name_of(how.how) == "hierarchical" && !how.hosts.empty()) {
    std::map<int, std::vector<Value>> by_host;
    for (int i = 0; i < members; ++i) by_host[how.hosts[i]].push_back(values[i]);
    values.clear();
    for (const auto& [host, of_host] : by_host) values.push_back(in_order(of_host));
  }
  return in_order(values);
}

}  // namespace plangrad::tests
