// A flag that has no effect is an error: nobody finds out otherwise.
// Chapter 10.
#include "parallel/plan/plan_codecs.h"

#include "autograd/error.h"

namespace paragrad::parallel {
namespace {

/// What the rows send.
struct Traffic {
  bool group_sums = false, passed_sums = false, activations = false;
};

Traffic traffic(const Plan& plan) {
  Traffic found;
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) {
      const bool sum = x.what == Value::gradient_sum;
      found.group_sums |= sum && meets(x);
      found.passed_sums |= sum && sends(x);
      found.activations |= x.what == Value::activation && sends(x);
    }
  return found;
}

}  // namespace

bool sums_in_groups(const Plan& plan) { return traffic(plan).group_sums; }

void check_codecs(const Plan& plan) {
  if (plan.steps == 0) return;
  const Traffic found = traffic(plan);
  const std::string codec = print(plan.codec), channel = print(plan.channel);
  PG_CHECK(plan.codec.is_none() || found.group_sums || found.passed_sums, "the codec ", codec,
           " is for sums of gradients, and in this plan none leaves its rank; leave it out",
           found.activations ? ", or encode activations with --codec-channel" : "");
  const WhichCodecs local = [](const CodecKind& kind) { return kind.is_local(); };
  PG_CHECK(is_local(plan.codec) || !found.passed_sums, "the codec ", codec, " needs a group that ",
           "sums its factors; in this plan sums go from rank to rank. Use ", codecs_to_use(local));
  PG_CHECK(plan.channel.is_none() || found.activations, "the channel's codec ", channel,
           " is for activations, and in this plan none leaves its rank; leave it out");
  PG_CHECK(plan.channel.kind().is_for_activations(), "the codec ", channel,
           " is for gradients; for activations use ", codecs_to_use(for_activations));
}

}  // namespace paragrad::parallel
