// train_gpt with --prune: both forms learn the same, stops change nothing, and what the files of a
// run say of it. Not here: methods (tests/sparse/pruning_test), plans and their numbers
// (tests/sparse/samo_engine_test).
#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/gpt_files.h"
#include "tests/examples/runs.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

const Words wide{"--layers", "2", "--width", "32", "--batch", "8", "--clip", "0", "--steps", "30"};

Words pruned_by(const std::string& method) {
  const bool once = method == "magnitude" || method == "global" || method == "random";
  return Words{"--prune", "0.8", "--prune-method", method, "--prune-after", "4"} +
         (once ? Words{} : Words{"--prune-every", "2"});
}

std::vector<std::string> methods() {
  if (sanitized) return {"global", "lottery", "early-bird"};
  return {"magnitude", "global", "random", "gradual", "lottery", "early-bird"};
}

std::vector<double> losses(const std::string& folder) {
  std::vector<double> result;
  for (const json& line : metrics_of(folder))
    if (line.contains("loss")) result.push_back(line["loss"]);
  return result;
}

}  // namespace

TEST_CASE("every method prunes as much as was asked, and SAMO learns what masked tensors do") {
  for (const std::string& method : methods()) {
    INFO(method);
    const Runs runs{wide + pruned_by(method) + Words{"--data-parallel", "2"}};
    runs.train("samo", {"--samo"});
    runs.train("masked");
    CHECK(losses(runs.path("samo")) == losses(runs.path("masked")));
    const json summary = summary_of(runs.path("samo"));
    const json& pruned = summary["pruned"];
    CHECK(pruned["method"] == method);
    // 2 blocks of 12 matrices of 32 x 32.
    CHECK(pruned["elements"] == 2 * 12 * 32 * 32);
    std::int64_t kept = 0;
    for (const auto& [layer, count] : pruned["layers"].items()) kept += count.get<int>();
    CHECK(pruned["kept"] == kept);
    const double off = method == "global" ? 1 : 8;  // rounding, of all or of each matrix
    CHECK(std::abs(static_cast<double>(kept) - 0.2 * 2 * 12 * 32 * 32) <= off / 2);
    CHECK(pruned["fraction"] == Approx(0.8).epsilon(1e-3));
    // Afterwards a rank holds less with SAMO, and sends less.
    const json masked = summary_of(runs.path("masked"));
    for (const char* category : {"optimizer", "gradients"})
      CHECK(2 * summary["peak_bytes_pruned"][0][category].get<int>() <
            masked["peak_bytes_pruned"][0][category].get<int>());
    CHECK(summary["bytes_sent"]["reductions"] < masked["bytes_sent"]["reductions"]);
    // The run's peaks: the optimizer's before it was pruned, the indices' since.
    const json peaks = summary["peak_bytes"][0], later = summary["peak_bytes_pruned"][0];
    CHECK(peaks["optimizer"] >= masked["peak_bytes_pruned"][0]["optimizer"]);
    CHECK(peaks["index"] >= later["index"]);
    CHECK(later["index"] > 0);
  }
}

TEST_CASE("a pruned run that stops and goes on, laid out and stored otherwise, learns the same") {
  for (const std::string& method : methods()) {
    INFO(method);
    const Runs runs{wide + pruned_by(method)};
    runs.train("whole", {"--samo"});
    const double loss = summary_of(runs.path("whole"))["validation_loss"];
    runs.train("parts", {"--samo", "--stop-after", "19"});
    runs.resume("parts", {"--out", runs.path("same")});
    CHECK(losses(runs.path("whole")) == losses(runs.path("same")));
    runs.resume("parts", {"--stages", "2", "--out", runs.path("pipeline")});
    CHECK(losses(runs.path("whole")) == losses(runs.path("pipeline")));
    CHECK(summary_of(runs.path("pipeline"))["validation_loss"] == loss);
    if (method == "magnitude" || method == "early-bird")
      CHECK(summary_of(runs.path("pipeline"))["pruned"] ==
            summary_of(runs.path("whole"))["pruned"]);
  }
}

TEST_CASE("a ramp ends where it was to end, whatever becomes of the run's length") {
  const Runs runs{wide + pruned_by("gradual") + Words{"--samo"}};
  runs.train("whole", {"--steps", "40", "--stop-after", "22", "--prune-until", "17"});
  for (const char* stop : {"12", "20"}) {
    runs.train("parts", {"--stop-after", stop});  // the ramp of 30 steps ends after update 17
    runs.resume("parts", {"--steps", "40", "--stop-after", "22", "--out", runs.path("longer")});
    CHECK(summary_of(runs.path("longer"))["pruned"] == summary_of(runs.path("whole"))["pruned"]);
    CHECK(summary_of(runs.path("longer")).contains("peak_bytes_pruned"));
  }
  const Finished other = run({"train_gpt", "--resume", runs.path("parts"), "--prune-until", "25"});
  CHECK_THAT(other.errors, Contains("the run began with --prune-until 17, not 25"));
}

TEST_CASE("a dense run can be pruned when it goes on") {
  const Runs runs{wide};
  runs.train("dense", {"--stop-after", "9"});
  const Words later{"--prune", "0.8", "--samo", "--prune-after"};
  runs.resume("dense", later + Words{"12", "--out", runs.path("pruned")});
  runs.train("whole", later + Words{"12"});
  CHECK(losses(runs.path("pruned")) == losses(runs.path("whole")));
  const Finished early =
      run(Words{"train_gpt", "--resume", runs.path("dense")} + later + Words{"9"});
  CHECK_THAT(early.errors, Contains("the run has done 9 updates") && Contains("--prune-after 10"));
}

TEST_CASE("a search for a ticket that stops goes on with the masks that it has drawn") {
  const Runs runs{wide + pruned_by("early-bird")};
  auto looks = [&](const std::string& name) {
    std::vector<json> found;
    for (const json& line : metrics_of(runs.path(name)))
      if (line.contains("pruning")) found.push_back(line);
    return found;
  };
  runs.train("whole");
  REQUIRE(looks("whole").size() == 6);  // after updates 4, 6, ..., 14
  for (const char* stop : {"9", "12"}) {
    runs.train("parts", {"--stop-after", stop});
    runs.resume("parts", {"--out", runs.path("same"), "--stages", "2"});
    CHECK(looks("same") == looks("whole"));
    CHECK(losses(runs.path("same")) == losses(runs.path("whole")));
  }
}

TEST_CASE("pruning combines with every schedule, with ZeRO and with codecs") {
  const std::vector<Words> layouts{
      {"--schedule", "gpipe", "--stages", "2", "--data-parallel", "2", "--codec", "quantize:4"},
      {"--schedule", "1f1b", "--stages", "2", "--data-parallel", "2", "--zero", "1"},
      {"--schedule", "2bw", "--stages", "2", "--microbatches", "2"},
      {"--schedule", "pipedream", "--stages", "2", "--dtype", "bf16"},
      {"--schedule", "zb-v", "--stages", "4", "--microbatches", "2"},
      {"--schedule", "dualpipe", "--stages", "2", "--microbatches", "2", "--zero", "1"},
      {"--schedule", "data", "--data-parallel", "2", "--zero", "3", "--codec", "adaptive:64:3"},
      {"--schedule", "data", "--data-parallel", "2", "--zero", "2", "--codec", "topk:0.1"},
      {"--schedule", "cyclic-v1", "--stages", "4"},
      {"--schedule", "cyclic-v2", "--stages", "2", "--setting", "zero", "--untied"},
      {"--schedule", "cyclic-v2", "--stages", "2", "--setting", "pipeline"}};
  const Runs runs{wide + pruned_by("early-bird") + Words{"--samo"}};
  for (const Words& layout : fewer(layouts)) {
    CAPTURE(layout);
    runs.train("run", layout);
    const json summary = summary_of(runs.path("run"));
    CHECK(summary["pruned"]["fraction"] == Approx(0.8).epsilon(1e-3));
    CHECK(std::isfinite(summary["validation_loss"].get<double>()));
  }
}

TEST_CASE("a pruned residual network learns the same in both forms, statistics and all") {
  const Folder folder;
  const std::string sizes("\0\0\0\x08\0\0\0\x08", 8), count("\0\0\0\x10", 4);
  std::string images, labels;
  for (int i = 0; i < 16 * 64; ++i) images += static_cast<char>(i * i / 7 % 251);
  for (int i = 0; i < 16; ++i) labels += static_cast<char>(i % 2);
  for (const char* part : {"train", "t10k"}) {
    folder.write(std::string("images/") + part + "-images-idx3-ubyte",
                 std::string("\0\0\x08\x03", 4) + count + sizes + images);
    folder.write(std::string("images/") + part + "-labels-idx1-ubyte",
                 std::string("\0\0\x08\x01", 4) + count + labels);
  }
  const Words words{"train_resnet",
                    "--data",
                    folder / "images",
                    "--width",
                    "2",
                    "--batch",
                    "8",
                    "--steps",
                    "8",
                    "--prune",
                    "0.7",
                    "--prune-after",
                    "2",
                    "--stages",
                    "2",
                    "--optimizer",
                    "adamw"};
  for (const Words& form : {Words{"--samo"}, Words{}}) {
    const Finished result =
        succeeded(run(words + form + Words{"--out", folder / (form.empty() ? "masked" : "samo")}));
  }
  CHECK(losses(folder / "samo") == losses(folder / "masked"));
  CHECK(summary_of(folder / "samo")["pruned"]["fraction"] == Approx(0.7).epsilon(1e-3));
}

TEST_CASE("sparse products learn what dense ones do, within rounding, and go on in any layout") {
  const Runs runs{wide + pruned_by("gradual") + Words{"--samo"}};
  runs.train("dense");
  runs.train("sparse", {"--sparse-compute"});
  // f32 rounds each of some hundred terms of a sum by 2^-24; AdamW makes steps of that.
  const double loss = summary_of(runs.path("dense"))["validation_loss"];
  const json sparse = summary_of(runs.path("sparse"));
  CHECK(sparse["validation_loss"].get<double>() == Approx(loss).epsilon(1e-4));
  CHECK(sparse["pruned"]["sparse_compute"] == true);
  const json peaks = sparse["peak_bytes_pruned"][0];
  CHECK(peaks["optimizer"] == 2 * peaks["weights"].get<int>());  // f32, and two moments of it
  runs.train("parts", {"--sparse-compute", "--stop-after", "19"});
  runs.resume("parts", {"--out", runs.path("same")});
  CHECK(losses(runs.path("sparse")) == losses(runs.path("same")));
  runs.resume("parts", {"--out", runs.path("piped"), "--stages", "2"});
  CHECK(summary_of(runs.path("piped"))["validation_loss"] == sparse["validation_loss"]);
}

TEST_CASE("a pruned run's text is written by sample_gpt") {
  const Runs runs{wide + pruned_by("magnitude")};
  for (const Words& form : {Words{}, Words{"--samo"}}) {
    runs.train("run", form);
    const Finished sample =
        succeeded(run({"sample_gpt", "--from", runs.path("run"), "--tokens", "9"}));
    CHECK(sample.output.size() >= 9);
  }
}

TEST_CASE("a pruned run's weights are exported with their zeros") {
  const Runs runs{wide + pruned_by("magnitude")};
  runs.train("run", {"--samo"});
  const std::string folder = runs.path("exported");
  runs.succeed({"sample_gpt", "--from", runs.path("run"), "--export", folder});
  const auto config = plangrad::nn::read_gpt_config(folder);
  const plangrad::nn::Stage stage(gpt(config), 0, config.layers + 2);
  const auto weights =
      plangrad::autograd::empty({stage.parameters().numel()}, plangrad::autograd::DType::f32,
                                plangrad::autograd::cpu_device());
  load_gpt_weights(folder, stage.parameters(), weights);
  const json kept = summary_of(runs.path("run"))["pruned"]["layers"];
  for (const auto& p : stage.parameters()) {
    if (!kept.contains(p.name)) continue;
    const auto values = to_host(weights.window(p.offset, p.shape));
    CHECK(p.shape.numel() - std::count(values.begin(), values.end(), 0) == kept[p.name]);
  }
  for (const char* flag : {"--prompt", "--tokens", "--temperature", "--top-k", "--seed"}) {
    const Finished both = run({"sample_gpt", "--from", folder, "--export", folder, flag, "1"});
    CHECK_THAT(both.errors, Contains("leave out " + std::string(flag)));
  }
}

TEST_CASE("what pruning does not combine with is refused with its name") {
  const Runs runs{wide};
  const Words half{"--prune", "0.5"};
  runs.check_refused({"--samo"}, "leave out --samo");
  runs.check_refused(half + Words{"--sparse-compute"}, "add --samo");
  runs.check_refused(half + Words{"--samo", "--sparse-compute", "--prune-all"},
                     "sparse compute: wte.weight");
  runs.check_refused({"--prune-after", "4"}, "nothing is pruned without --prune");
  runs.check_refused({"--sparse-compute"}, "leave out the other pruning flags");
  runs.check_refused({"--prune", "1"}, "expected a number from 0 to 0.9999");
  runs.check_refused(half + Words{"--prune-after", "30"}, "the run has 30 --steps");
  runs.check_refused(half + Words{"--prune-method", "lottery", "--prune-every", "9"},
                     "smaller --prune-every");
  const Words two{"--data-parallel", "2"};
  runs.check_refused(half + Words{"--prune-every", "2"}, "--prune-method magnitude prunes once");
  runs.check_refused(half + Words{"--prune-until", "9"}, "--prune-method magnitude has no ramp");
  runs.check_refused(half + Words{"--prune-method", "gradual", "--prune-until", "2"},
                     "--prune-until 2 must be above --prune-after 3");
  runs.check_refused(half + two + Words{"--codec", "quantize:4"}, "add --samo");
  runs.check_refused(half + two + Words{"--samo", "--codec", "lowrank:2"}, "leave out --samo");
  runs.check_refused(half + Words{"--plan", "own.plan"}, "use --schedule, or leave out --prune");
  runs.train("run", half + Words{"--stop-after", "9"});
  check_ended(run({"train_gpt", "--resume", runs.path("run"), "--prune", "0.6"}), 2,
              "the run began with --prune 0.5, not 0.6");
}

TEST_CASE("a run that would hold more than its cap says what for") {
  const Runs runs{wide};
  const Finished result = run(runs.words("run", {"--memory-cap", "100000"}));
  CHECK(result.status == 1);
  CHECK_THAT(result.errors, Contains("out of memory: ") && Contains(" bytes more for ") &&
                                Contains("above the cap of 100000; raise --memory-cap"));
  runs.train("enough", {"--memory-cap", "100000000"});
}
