// Values that are not finite, where values are encoded: the run ends, with a report that names
// them on every rank, and nothing hangs.
// Not here: what codecs make of such values (codec_test), other failures (failures_test).
#include <regex>

#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

/// The report of a run whose first step leaves weights that are much too large.
std::string report_of(const CodedRun& run, int capacity) {
  Training training = training_of(run);
  training.learning_rate = {1e30, 1e30, 0, 10};
  SmallBatches batches(coded_gpt(run.tied));
  const auto plans = plans_of(run.schedule, layout_of(run, 5));
  return error_of([&] {
    run_by_engine(training, plans, batches, capacity, reductions().at(run.reduction),
                  hosts_of(plans[0].plan().ranks()));
  });
}

/// Each rank has its line, and one says what is wrong.
void check_report(const CodedRun& run, const std::string& what) {
  for (int capacity : {0, 2}) {
    INFO(run << ", capacity " << capacity);
    const std::string report = "\n" + report_of(run, capacity);
    INFO(report);
    CHECK(std::regex_search(report, std::regex("\nrank [0-9]: (" + what + ")")));
    const int ranks = make_plan(run.schedule, layout_of(run, 1)).ranks();
    for (int rank = 0; rank < ranks; ++rank)
      CHECK_THAT(report, Contains(text("\nrank ", rank, ": ")));
  }
}

// Where a rank is the only one with a stage, or reads newer weights than the one before it, its own
// step may be the first to see what is wrong.
const std::string norm = "step [0-9]+: the gradient's norm is ", or_norm = "|" + norm;

/// Whether what is not finite arrives so.
bool passes_on(const std::string& codec) { return codec == "bf16" || codec == "quantize:4"; }

/// Passes its input on, and makes the gradient of its parameter NaN in microbatch 0.
class Breaking : public Layer {
 public:
  Breaking(ParameterList& list, const Shape& shape)
      : parameter_(list.add("breaking.weight", shape, Init::constant(1))) {}
  Tensor forward(const Tensor& x, const Pass& pass) const override {
    const double factor = pass.microbatch == 0 ? NAN : 1;
    auto gradient = [factor, shape = parameter_.shape](const Tensor& dy) {
      return std::vector<Tensor>{dy, full(shape, factor, DType::f32, dy.device())};
    };
    return record(affine(x.detach(), 1), "breaking", {x, parameter_.value}, gradient);
  }

 private:
  const Parameter& parameter_;
};

/// The report of two replicas of a GPT with such a layer behind its embedding.
std::string broken_report(const Shape& shape, const std::string& codec, int zero, bool clip) {
  const GptConfig config = coded_gpt(false);
  Model model = gpt(config);
  auto build = [=](ParameterList& list) { return std::make_unique<Breaking>(list, shape); };
  model.insert(model.begin() + 1, {"breaking", build});
  Training training(model, 1);
  training.clip = clip ? 1 : 0;
  SmallBatches batches(config);
  const Layout layout{.width = 2, .clip = clip, .zero = zero, .codec = parse_codec(codec)};
  return error_of([&] { run_by_engine(training, plans_of("data", layout), batches); });
}

}  // namespace

TEST_CASE("encoded sums: a gradient that breaks where nothing is encoded is named, too",
          "[codec]") {
  for (const char* codec : {"none", "quantize:4", "topk:0.1", "lowrank:2"})
    for (bool clip : {false, true}) {
      INFO(codec << (clip ? ", clipped" : ""));
      // A bias travels as it is. Rank 0's part of what it owns itself never travels with ZeRO.
      for (int zero : {0, 1, 2})
        CHECK_THAT(broken_report({32}, codec, zero, clip),
                   Contains("step 1: the ") && Contains(" of breaking.weight is not finite") &&
                       Contains("use a lower --learning-rate"));
      CHECK_THAT(broken_report({32, 32}, codec, 1, clip),
                 Contains("step 1: the ") && Contains(" of breaking.weight is not finite"));
    }
}

TEST_CASE("encoded sums: a gradient that is not finite is reported with its layer", "[codec]") {
  for (const char* codec :
       fewer<const char*>({"topk:0.1", "lowrank:2", "quantize:4", "threshold:0.1", "bf16"}, 2)) {
    const std::string what =
        passes_on(codec) ? norm
                         : "step [0-9]+: the gradient of [a-z0-9_.]+(weight|bias) is not finite";
    for (const auto& [reduction, how] : reductions())
      check_report({.schedule = "data", .codec = codec, .reduction = reduction}, what);
    for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"})
      check_report({.schedule = schedule, .codec = codec}, what);
    if (codec == std::string("lowrank:2")) continue;
    for (const char* schedule : {"cyclic-v1", "cyclic-v2"}) {
      for (Setting setting : {Setting::data, Setting::zero})
        check_report({.schedule = schedule, .codec = codec, .setting = setting}, what);
      check_report({.schedule = schedule, .codec = codec, .setting = Setting::model},
                   what + or_norm);
    }
  }
}

TEST_CASE("encoded activations: what is not finite is reported with stage and microbatch",
          "[codec]") {
  for (const char* channel :
       fewer<const char*>({"topk:0.2", "quantize:4", "threshold:0.2", "bf16"}, 2)) {
    const std::string what =
        passes_on(channel)
            ? norm
            : "microbatch [0-9]+: activation(s| gradients) of stage [0-2] are not finite";
    for (const char* schedule : {"gpipe", "1f1b", "2bw"})
      check_report({.schedule = schedule, .channel = channel}, what);
    check_report({.schedule = "pipedream", .channel = channel}, what + or_norm);
    for (Setting setting : {Setting::pipeline, Setting::model}) {
      check_report({.schedule = "cyclic-v1", .channel = channel, .setting = setting}, what);
      check_report({.schedule = "cyclic-v2", .channel = channel, .setting = setting},
                   what + or_norm);
    }
  }
}
