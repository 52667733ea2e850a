// With one stage a rank, the messages from one rank to another are all activations, or all
// gradients: a receiver may take those of one kind in another order than those of the other.
// Chapter 06.
#include "parallel/verifier/driven.h"

#include <set>

#include "parallel/verifier/place.h"

namespace paragrad::parallel {
namespace {

void check_operation(const Place& at, int stage) {
  const Instruction& x = at.instruction();
  if (uses_weights(x) && x.stage != stage)
    refuse("driven", at, "a message-driven rank computes one stage; this one has stage ", stage);
  if (goes_back(x) && x.what != Value::none)
    refuse("driven", at, "a message-driven rank runs whole backwards");
  if (travels(x) && x.what != Value::activation && x.what != Value::activation_gradient)
    refuse("driven", at, "a message-driven rank sends activations and their gradients only");
}

/// Backwards come in the order of their forwards, so that the first that waits has its forward.
void check_row(const Plan& plan, int rank) {
  const Row& row = plan.rows[rank];
  std::vector<int> forwards;
  std::set<int> seen;
  std::size_t backwards = 0;
  int stage = -1;
  for (int index = 0; index < static_cast<int>(row.size()); ++index) {
    const Place at{plan, rank, index};
    const Instruction& x = row[index];
    if (begins_pass(x) && stage < 0) stage = x.stage;
    check_operation(at, stage);
    if (begins_pass(x) && seen.insert(x.micro).second) forwards.push_back(x.micro);
    if (!goes_back(x)) continue;
    if (backwards >= forwards.size() || forwards[backwards++] != x.micro)
      refuse("driven", at, "backwards of a message-driven rank have the order of its forwards");
  }
}

}  // namespace

void check_driven(const Plan& plan) {
  if (plan.in_flight == 0) return;
  for (int rank = 0; rank < plan.ranks(); ++rank) check_row(plan, rank);
}

}  // namespace paragrad::parallel
