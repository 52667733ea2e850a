// The first walk of lowering, in which sums and weights are everywhere as soon as they are made.
// Not here: what the order that it learns is for (homes.cpp, lower_sums.cpp).
// Chapter 08.
#include "parallel/lowering/order.h"

namespace paragrad::parallel {
namespace {

class FirstWalk : public Walk {
 public:
  using Walk::Walk;
  Order run() {
    walk();
    return std::move(order_);
  }

 private:
  bool ready(int, const Instruction& x) const override {
    if (makes_version(x)) return made_.contains({x.stage, x.version}) && knows_norm(x.version);
    bool travels = !plan_.home.empty() && x.version > plan_.first;
    return !travels || made_.contains({x.stage, x.version});
  }

  bool knows_norm(int version) const {
    for (int stage = 0; plan_.clip && stage < plan_.stage_count(); ++stage)
      if (!made_.contains({stage, version})) return false;
    return true;
  }

  void starts(int rank, const Instruction& x) override {
    if (makes_version(x)) order_.steppers[{x.stage, x.version}].push_back(rank);
    if (plan_.home.empty() || !uses_weights(x)) return;
    auto& runs = order_.users[{x.stage, x.version}];
    if (runs.empty() || runs.back().rank != rank) runs.push_back({rank, x});
    runs.back().last = x;
  }

  void ends(int, const Instruction&) override {}
  void adds(int stage, int micro, int, bool last) override {
    if (last) made_.insert({stage, plan_.made_by(micro)});
  }

  Order order_;
  std::set<Cell> made_;  // versions that could be made, as (stage, version)
};

}  // namespace

Order learn_order(const Plan& computations) { return FirstWalk(computations).run(); }

}  // namespace paragrad::parallel
