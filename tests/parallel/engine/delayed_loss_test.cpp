// Old weights cost little: the losses of delayed rules beside those of one rank without delay.
// Not here: that the rules are followed bit for bit (update_rules_test).
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// The mean loss of the first and of the last update on one batch that is always the same.
std::pair<double, double> losses_of(const std::string& schedule, int stages, int microbatches) {
  constexpr int updates = 60;
  Training training(gpt(small_gpt(true)), stages);
  training.learning_rate = {0.001, 0.001, 0, updates};
  Layout layout{stages, 1, microbatches, updates, 0, false, true, stages > 1};
  SameBatch batches(small_gpt(), microbatches);
  Outcome outcome = run_by_engine(training, plans_of(schedule, layout), batches);
  auto mean = [&](int first) {
    double sum = 0;
    for (int micro = first; micro < first + microbatches; ++micro) sum += outcome.losses.at(micro);
    return sum / microbatches;
  };
  return {mean(0), mean((updates - 1) * microbatches)};
}

}  // namespace

TEST_CASE("2bw and pipedream take the loss most of the way that one rank takes it") {
  for (const auto& [schedule, microbatches] : {std::pair{"2bw", 4}, std::pair{"pipedream", 1}}) {
    const auto [begin, serial] = losses_of("1f1b", 1, microbatches);
    const auto [same, delayed] = losses_of(schedule, 4, microbatches);
    INFO(schedule << ": from " << same << " to " << delayed << "; one rank to " << serial);
    CHECK(same == Approx(begin));
    CHECK(serial < 0.25 * begin);
    CHECK(begin - delayed > 0.75 * (begin - serial));  // measured: 0.91 and 0.83 of it
  }
}
