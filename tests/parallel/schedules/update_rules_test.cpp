// What schedules learn: the engine against each update rule, written out with the whole model in
// one stage, no plan and no messages. Equal bit for bit: gradients are added up in the same order,
// by microbatch in each replica, then by replica. Only where a tied table's two users lie on
// different stages are their sums added up apart; there we compare in f64.

#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"
#include "tests/parallel/support/whole_model.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

struct Case {
  std::string schedule;
  int width, stages, microbatches;
  bool adamw = true;
  double clip = 0;
  bool tied = false, recompute = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.schedule << " W" << c.width << " D" << c.stages << " M" << c.microbatches
             << (c.adamw ? " adamw" : " sgd") << " clip " << c.clip << (c.tied ? " tied" : "")
             << (c.recompute ? " recompute" : "");
}

constexpr int steps = 4;

Layout layout_of(const Case& c) {
  bool tied = c.tied && c.stages > 1;
  return {c.stages, c.width, c.microbatches, steps, 0, c.recompute, c.clip > 0, tied};
}

Training training_of(const Case& c) {
  Training training = training_with_warmup(gpt(small_gpt(c.tied, 0.1)), c.stages, c.adamw, c.clip);
  if (c.tied) training.dtype = DType::f64;
  return training;
}

/// Runs the case by the engine, and compares every rank's weights with the rule's last ones.
template <class Rule>
void compare(const Case& c, Rule rule) {
  INFO(c);
  Training training = training_of(c);
  Layout layout = layout_of(c);
  SmallBatches batches(small_gpt());
  Outcome outcome = run_by_engine(training, plans_of(c.schedule, layout), batches);
  if (c.schedule == "pipedream") {  // a microbatch of each replica is a step
    layout.steps *= layout.microbatches;
    layout.microbatches = 1;
  }
  WholeModel model(training, layout, batches);
  Tensor expected = rule(model, layout);
  REQUIRE(!outcome.weights.empty());
  bool apart = c.tied && c.stages > 1;
  for (const auto& [name, weights] : outcome.weights) {
    std::vector<double> wanted = model.part(expected, name.second);
    REQUIRE(weights.size() == wanted.size());
    // f64 rounds sums of this size to 1e-16; AdamW divides such an error by at least 1e-8.
    double largest = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      largest = std::max(largest, std::abs(weights[i] - wanted[i]));
    CHECK(largest <= (apart ? 1e-8 * 0.02 : 0));
  }
  if (c.clip > 0) {
    REQUIRE(outcome.norms.size() == model.norms.size());
    for (const auto& [version, norm] : model.norms) {
      CHECK(norm > c.clip);  // else nothing was clipped
      CHECK(std::abs(outcome.norms.at(version) - norm) <= (apart ? 1e-12 * norm : 0));
    }
  }
}

// [snippet 2bw_rule]
/// W(t+1) = W(t) - lr * grad f(W(t-1))
Tensor two_versions(WholeModel& model, const Layout& layout) {
  std::vector<Tensor> w{model.first()};
  for (int t = 0; t < layout.steps; ++t)
    w.push_back(model.update(w[t], model.gradient(w[std::max(t - 1, 0)], t), t + 1));
  return w.back();
}
// [end snippet]

/// W(t+1) = W(t) - lr * grad f(W(t))
Tensor ordinary(WholeModel& model, const Layout& layout) {
  Tensor w = model.first();
  for (int t = 0; t < layout.steps; ++t) w = model.update(w, model.gradient(w, t), t + 1);
  return w;
}

/// W(t+1) = W(t) - lr * grad f(W_0(t-D+1), ..., W_s(t-D+1+s), ..., W_{D-1}(t))
Tensor stashed(WholeModel& model, const Layout& layout) {
  std::vector<Tensor> w{model.first()};
  for (int t = 0; t < layout.steps; ++t) {
    auto read = [&](int stage) { return w[std::max(t - layout.stages + 1 + stage, 0)]; };
    w.push_back(model.update(w[t], model.gradient(model.mixed(read), t), t + 1));
  }
  return w.back();
}

/// Every size of a schedule; the other choices change along.
template <class Rule>
void compare_sizes(const std::string& schedule, Rule rule) {
  std::vector<Case> cases;
  int i = 0;
  for (int width : {1, 2, 3})
    for (int stages : {1, 2, 4})
      for (int microbatches : {1, 4}) {
        if (width * stages > 8) continue;
        bool adamw = ++i % 2 == 0;
        cases.push_back({schedule, width, stages, microbatches, adamw, 0, false, i % 3 == 0});
        cases.push_back({schedule, width, stages, microbatches, !adamw, 0.3, false, i % 3 == 1});
      }
  for (const Case& c : fewer(cases)) compare(c, rule);
}

}  // namespace

TEST_CASE("2BW learns by W(t+1) = W(t) - lr grad f(W(t-1))", "[rules]") {
  compare_sizes("2bw", two_versions);
}

TEST_CASE("2BW learns by its rule with too few microbatches for a full pipeline", "[rules]") {
  for (int stages : {3, 5, 6})
    for (int microbatches = 1; microbatches < stages - 1; ++microbatches)
      compare({"2bw", 1, stages, microbatches, microbatches % 2 == 0}, two_versions);
}

TEST_CASE("synchronous schedules learn as one rank does", "[rules]") {
  for (const char* schedule : {"data", "gpipe", "1f1b"}) compare_sizes(schedule, ordinary);
}

TEST_CASE("PipeDream learns by weights stashed for each stage", "[rules]") {
  compare_sizes("pipedream", stashed);
}

TEST_CASE("tied embeddings are one tensor, whichever stages use it", "[rules]") {
  for (int stages : fewer<int>({3, 1}, 1))
    for (bool adamw : {false, true})
      for (double clip : {0.0, 0.3}) {
        compare({"2bw", 2, stages, 3, adamw, clip, true}, two_versions);
        compare({"1f1b", 2, stages, 3, adamw, clip, true}, ordinary);
        compare({"data", 2, stages, 3, adamw, clip, true}, ordinary);
        if (stages > 1) compare({"pipedream", 2, stages, 2, adamw, clip, true}, stashed);
      }
}

TEST_CASE("the rules differ, so that no schedule can pass for another", "[rules]") {
  Training training = training_of({"2bw", 1, 2, 2});
  SmallBatches batches(small_gpt());
  Layout layout{.stages = 2, .microbatches = 2, .steps = steps};
  std::vector<std::vector<double>> ends;
  for (auto rule : {two_versions, ordinary, stashed, cyclic_v2}) {
    WholeModel model(training, layout, batches);
    ends.push_back(to_host(rule(model, layout)));
    for (std::size_t other = 0; other + 1 < ends.size(); ++other) CHECK(ends[other] != ends.back());
  }
}

TEST_CASE("the gradient's norm does not depend on the cut", "[rules]") {
  std::map<int, double> norms;
  for (int stages : {1, 2, 3, 5, 6}) {
    Case c{"gpipe", 1, stages, 3, true, 0.3};
    Training training = training_of(c);
    SmallBatches batches(small_gpt());
    Outcome outcome = run_by_engine(training, plans_of(c.schedule, layout_of(c)), batches);
    if (norms.empty()) norms = outcome.norms;
    CHECK(outcome.norms.size() == steps);
    CHECK(outcome.norms == norms);
  }
}
