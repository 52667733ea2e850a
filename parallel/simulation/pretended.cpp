// Pretended times are costs, so that the simulator's rules for them hold for runs, too. Chapter 06.
#include "parallel/simulation/pretended.h"

namespace plangrad::parallel {
namespace {

/// Puts the pretended seconds of each stage that has some into `list`.
void put(const std::vector<double>& pretended, std::vector<double>& list) {
  for (std::size_t stage = 0; stage < list.size(); ++stage)
    if (const double seconds = pretended.size() == 1 ? pretended[0] : pretended.at(stage);
        seconds > 0)
      list[stage] = seconds;
}

}  // namespace

bool Pretended::computes() const {
  for (const auto* list : {&forward, &backward, &step})
    if (std::any_of(list->begin(), list->end(), [](double x) { return x > 0; })) return true;
  return false;
}

double Pretended::seconds(const Plan& plan, const Instruction& x) const {
  if (!is_compute(x)) return 0;
  Costs costs;
  costs.forward = forward;
  costs.backward = backward;
  costs.step = step;
  return duration(x, 0, plan, costs);
}

int Pretended::computations(const Plan& plan) const {
  if (!computes()) return 0;
  int count = 0;
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) count += seconds(plan, x) > 0;
  return count;
}

Costs Pretended::instead_of(Costs measured, const Plan& plan) const {
  measured.forward.resize(plan.stages);
  measured.backward.resize(plan.stages);
  measured.step.resize(plan.stage_count());
  put(forward, measured.forward);
  put(backward, measured.backward);
  std::vector<double> half = backward;
  for (double& seconds : half) seconds /= 2;
  put(half, measured.input_part);
  put(half, measured.weight_part);
  put(step, measured.step);
  if (links())
    measured.machine = std::make_shared<Machine>(
        Machine{.name = machine.empty() ? "pretended" : machine, .topology = topology});
  return measured;
}

}  // namespace plangrad::parallel
