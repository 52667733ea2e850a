// train_gpt with codecs: what is saved of them, so that a run that stops and goes on is the run
// that did not stop. Not here: which combinations there are (codec_table_test).
#include <cmath>
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

/// Wide enough that matrices are encoded.
const Words wide{"--layers", "2", "--width", "32", "--batch", "8", "--ranks", "4"};

void check_resumed(const Runs& runs, const std::string& steps, const std::string& half) {
  runs.train("whole", {"--steps", steps});
  runs.train("parts", {"--steps", steps, "--stop-after", half});
  runs.resume("parts");
  runs.check_same("whole", "parts");
}

json last_step(const std::string& folder) {
  json last;
  for (const json& line : metrics_of(folder))
    if (line.contains("loss")) last = line;
  return last;
}

}  // namespace

TEST_CASE("a run's encoded layers take 7.88 times fewer bytes at four bits") {
  // The model that chapter 10 counts: matrices, and biases and norms.
  constexpr double matrices = 430080, others = 3584;
  const Runs runs{{"--layers", "2", "--width", "128", "--context", "32", "--vocab", "bytes",
                   "--steps", "1", "--warmup", "0", "--schedule", "data", "--ranks", "2"}};
  auto sent = [&](const std::string& codec) {
    runs.train(codec, {"--codec", codec});
    return summary_of(runs.path(codec))["bytes_sent"]["reductions"].get<double>();
  };
  // Each of two ranks sends half of its gradient, and half of the sum.
  CHECK(sent("none") == 2 * 4 * (matrices + others));
  const double bytes = sent("quantize:4:1024") - 2 * 4 * others;
  CHECK(std::abs(2 * 4 * matrices / bytes - 7.88) < 0.01);
}

TEST_CASE("codecs go on with what they left out, their thresholds, factors and uses") {
  const std::vector<std::string> codecs{"topk:0.05", "threshold:0.05:5", "lowrank:2", "pca:2:4"};
  for (const std::string& codec : fewer(codecs)) {
    INFO(codec);
    check_resumed(Runs{wide + Words{"--schedule", "data", "--codec", codec}}, "9", "4");
  }
  check_resumed(Runs{wide + Words{"--schedule", "cyclic-v1", "--codec", "topk:0.05"}}, "9", "4");
  check_resumed(Runs{wide + Words{"--schedule", "1f1b", "--stages", "2", "--microbatches", "2",
                                  "--codec-channel", "threshold:0.2:5"}},
                "9", "4");
}

TEST_CASE("what a codec left out counts as much in other layouts, and not for other codecs") {
  const Runs runs{wide + Words{"--clip", "0", "--schedule", "data"}};
  auto last_norm = [&](const std::string& name) {
    return last_step(runs.path(name))["gradient_norm"].get<double>();
  };
  for (const std::string codec : {"topk:0.02", "lowrank:2"}) {
    INFO(codec);
    const std::string from = "run " + codec;
    runs.train(from, {"--codec", codec, "--steps", "9", "--stop-after", "8"});
    runs.resume(from, {"--out", runs.path("same")});
    // The same sums, so the same norm, as far as other encodings leave out something else.
    for (const Words& other : {Words{"--schedule", "data", "--ranks", "2"},
                               Words{"--schedule", "data", "--ranks", "4", "--microbatches", "2"},
                               Words{"--schedule", "1f1b", "--ranks", "4", "--stages", "2"}}) {
      CAPTURE(other);
      runs.resume(from, Words{"--out", runs.path("other")} + other);
      CHECK(last_norm("other") > 0.65 * last_norm("same"));
      CHECK(last_norm("other") < 1.5 * last_norm("same"));
    }
  }
  runs.train("factors", {"--codec", "lowrank:2", "--steps", "24", "--stop-after", "8"});
  runs.resume("factors", {"--codec", "pca:2:6"});  // whose basis is not the factors
  CHECK(last_norm("factors") < 10);
}

TEST_CASE("a resumed run says what its codec loses of the one before") {
  const Runs runs{wide + Words{"--vocab", "bytes", "--schedule", "data", "--steps", "6"}};
  auto said = [&](const std::string& before, const std::string& after) {
    runs.train(before, {"--codec", before, "--stop-after", "2"});
    return run(Words{"train_gpt", "--resume", runs.path(before), "--codec", after}).output;
  };
  CHECK_THAT(said("topk:0.1", "quantize:4"),
             Contains("\nwhat topk:0.1 has left out of gradients so far is lost, as --codec "
                      "quantize:4 adds nothing later; resume with topk:0.1 to keep it\n"));
  CHECK_THAT(said("lowrank:2", "none"), Contains("\nwhat lowrank:2 has left out"));
  CHECK_THAT(said("threshold:0.1", "topk:0.1"), !Contains("left out"));
  CHECK_THAT(said("quantize:4", "bf16"), !Contains("left out"));

  // Of a pipeline without replicas, only the tied table's sum leaves its ranks.
  const Words pipeline{"--schedule", "1f1b", "--stages", "4", "--microbatches", "4"};
  auto resumed = [&](const Words& more) {
    return run(Words{"train_gpt", "--resume", runs.path("topk:0.1")} + more).output;
  };
  runs.train("topk:0.1", {"--codec", "topk:0.1", "--stop-after", "2"});
  CHECK_THAT(resumed(Words{"--out", runs.path("zero"), "--zero", "2"}), !Contains("left out"));
  const std::string lost = resumed(Words{"--out", runs.path("pipeline")} + pipeline);
  CHECK_THAT(lost, Contains("\nwhat topk:0.1 has left out so far of the gradients of "
                            "h.0.attn.c_attn.weight, h.0.attn.c_proj.weight, h.0.mlp.c_fc.weight, "
                            "h.0.mlp.c_proj.weight, h.1.attn.c_attn.weight, "
                            "h.1.attn.c_proj.weight, h.1.mlp.c_fc.weight, h.1.mlp.c_proj.weight is "
                            "lost, as their sums do not leave a rank any more; resume"));
}

TEST_CASE("adaptive bits are of adaptive runs") {
  const Runs runs{wide + Words{"--schedule", "data"}};
  const std::vector<Words> layouts{
      {"--zero", "2"},
      {"--schedule", "cyclic-v1"},
      {"--schedule", "2bw", "--stages", "2", "--microbatches", "2"},
      {"--schedule", "cyclic-v2", "--setting", "zero", "--clip", "0", "--untied"}};
  for (const Words& layout : fewer(layouts)) {
    CAPTURE(layout);
    const Runs adaptive{wide + Words{"--codec", "adaptive:64:3", "--schedule", "data"} + layout};
    check_resumed(adaptive, "8", "4");
    int choices = 0;
    for (const json& line : metrics_of(adaptive.path("whole"))) choices += line.contains("bits");
    CHECK(choices == 2);
  }
  runs.train("adaptive", {"--codec", "adaptive:64:3", "--steps", "8", "--stop-after", "4"});
  runs.resume("adaptive", {"--codec", "quantize:8:64"});
  runs.train("uniform", {"--codec", "quantize:8:64", "--steps", "8"});
  CHECK(last_step(runs.path("adaptive"))["bytes_sent"] ==
        last_step(runs.path("uniform"))["bytes_sent"]);
}

TEST_CASE("adaptive bits are chosen, written down and gone on with") {
  const Runs runs{wide + Words{"--schedule", "data", "--codec", "adaptive:64"}};
  check_resumed(runs, "104", "102");
  std::vector<json> chosen;
  for (const json& line : metrics_of(runs.path("whole")))
    if (line.contains("bits")) chosen.push_back(line);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0]["step"] == 100);
  std::set<int> bits;
  for (const auto& [layer, number] : chosen[0]["bits"].items()) bits.insert(number.get<int>());
  CHECK(bits.size() > 1);  // not uniform
  CHECK(*bits.begin() >= 1);
  CHECK(*bits.rbegin() <= 8);
  CHECK(summary_of(runs.path("whole"))["bits"] == chosen[0]["bits"]);
  const json report = report_of(runs.path("whole"));
  CHECK(report["metrics"]["bits"] == json(chosen));
  REQUIRE(report["windows"].size() == 2);  // the second one after the first choice
  CHECK(report["windows"][1]["since"] == "choice of bits after update 100");
  CHECK(report["windows"][1]["first"] == 101);
}
