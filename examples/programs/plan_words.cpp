// Chooses among sentences by the facts of the plan. Chapter 06.
#include "examples/programs/plan_words.h"

#include <algorithm>

#include "autograd/error.h"

namespace plangrad::examples {
namespace {

using autograd::text;

std::string counted(int number, const std::string& what) {
  return text(number, ' ', what, number == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

/// Says which rank has the most of something, or that all have as much.
std::string most_of(const std::vector<int>& by_rank, const char* verb, const char* what,
                    const char* after) {
  const auto [least, most] = std::minmax_element(by_rank.begin(), by_rank.end());
  const std::string much = text(verb, ' ', counted(*most, what), after);
  if (by_rank.size() == 1) return "The rank " + much;
  if (*least == *most) return "Every rank " + much;
  return text("Rank ", most - by_rank.begin(), ' ', much, ", the most; others down to ", *least);
}

std::string about_deadlock(const parallel::Facts& facts) {
  if (facts.capacity > 0)
    return text("No deadlock, if each channel can hold ", counted(facts.capacity, "message"),
                " that nobody has received yet.");
  return "No deadlock: the plan ends even if every send waits for its receive.";
}

std::string about_reads(const parallel::Facts& facts) {
  if (facts.drift == 0) return "A backward reads the version of the weights that its forward read.";
  return text("A backward may read weights that are ", counted(facts.drift, "update"),
              " newer than its forward's: drift ", facts.drift, '.');
}

std::string about_staleness(const parallel::Facts& facts) {
  if (facts.staleness == 0)
    return "Each gradient is taken on the newest weights: staleness 0, as without parallelism.";
  return text("A gradient may be taken on weights that are ", counted(facts.staleness, "update"),
              " old when it is applied: staleness ", facts.staleness, '.');
}

std::string about_shards(int level) {
  const char* what[] = {"", "Its optimizer state is", "Its optimizer state and gradients are",
                        "Its optimizer state, gradients and weights are"};
  return text(what[level], " sharded over the ranks of a group: ZeRO level ", level, '.');
}

}  // namespace

std::vector<std::string> sentences(const parallel::VerifiedPlan& verified) {
  const parallel::Facts& facts = verified.facts();
  std::vector<std::string> all{
      about_deadlock(facts),
      "Every gradient is summed once: each microbatch is in the sum of one update, on each stage.",
      about_reads(facts),
      about_staleness(facts),
      most_of(facts.live_versions, "keeps", "version", " of a stage's weights at once") + ".",
      most_of(facts.peak_microbatches, "keeps the activations of", "microbatch", "") + "."};
  if (verified.plan().sharded > 0) all.push_back(about_shards(verified.plan().sharded));
  return all;
}

}  // namespace plangrad::examples
