// train_resnet: a network of a moment on images made here, each class of which has its own bright
// rows: what it writes, on one rank and on several, resumed, and what it refuses.
// Not here: what all training programs share (ranks_test.cpp, programs_test.cpp).

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

constexpr int classes = 4, side = 8;

std::string word(int value) {
  return {'\0', '\0', static_cast<char>(value >> 8), static_cast<char>(value)};
}

/// Image i is of class i % 4, whose two rows are bright. Others vary a little.
std::string image_file(int count) {
  std::string bytes = word(0x803) + word(count) + word(side) + word(side);
  for (int i = 0; i < count; ++i)
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x)
        bytes += static_cast<char>(y / 2 == i % classes ? 200 : (i * 7 + x * 3 + y) % 20);
  return bytes;
}

/// The classes, each moved on by `turn`.
std::string label_file(int count, int turn = 0) {
  std::string bytes = word(0x801) + word(count);
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((i + turn) % classes);
  return bytes;
}

struct ImageRuns : Runs {
  ImageRuns() {
    data = folder / "images";
    folder.write("images/train-images-idx3-ubyte", image_file(48));
    folder.write("images/train-labels-idx1-ubyte", label_file(48));
    folder.write("images/t10k-images-idx3-ubyte", image_file(22));
    folder.write("images/t10k-labels-idx1-ubyte", label_file(22));
  }

  Words words(const std::string& name, const Words& more = {}) const override {
    return Words{"train_resnet", "--data", data,      "--out", path(name), "--width", "2",
                 "--batch",      "8",      "--steps", "6",     "--warmup", "1"} +
           more;
  }
};

/// What every seed learns the classes with; smaller or faster runs hang on the last bits.
const Words steady{"--width", "4", "--batch", "16", "--learning-rate", "0.01", "--steps", "60"};
const Words two_stages{"--schedule", "1f1b", "--stages", "2", "--microbatches", "2"};
const Words two_replicas{"--data-parallel", "2"};

}  // namespace

TEST_CASE("train_resnet learns to tell classes apart, and counts how many it gets right") {
  ImageRuns runs;
  runs.train("run", steady + Words{"--evaluate-every", "20"});
  const json summary = summary_of(runs.path("run"));
  CHECK(summary["validation_accuracy"] == 1);
  CHECK(summary["validation_loss"] < 0.2);
  CHECK(summary["images_per_second"] > 0);
  CHECK_FALSE(summary.contains("tokens_per_second"));
  CHECK(summary["config"]["flags"]["--learning-rate"] == 0.01);
  CHECK(summary["config"]["flags"]["--weight-decay"] == 0.0005);
  CHECK(summary["config"]["flags"]["--clip"] == 0);
  CHECK(summary["model_flops_utilization"] > 0);

  const std::vector<json> lines = metrics_of(runs.path("run"));
  REQUIRE(lines.size() == 63);
  CHECK(lines[0]["images_per_second"].get<double>() ==
        Approx(16 / lines[0]["seconds"].get<double>()));
  CHECK(lines[20]["validation_accuracy"].is_number());
  const json report = report_of(runs.path("run"));
  CHECK(report["unit"] == "images");
  CHECK(report["summary"]["validation_accuracy"].is_number());
}

TEST_CASE("the accuracy is the share of right predictions, whatever the last microbatch's size") {
  ImageRuns runs;
  // Of the images to validate, those of class 0, which are 6 of 22, are said to be of class 1.
  std::string labels = label_file(22);
  std::replace(labels.begin() + 8, labels.end(), '\0', '\1');
  runs.folder.write("images/t10k-labels-idx1-ubyte", labels);
  runs.train("run", steady);
  CHECK(summary_of(runs.path("run"))["validation_accuracy"].get<double>() == Approx(16.0 / 22));
  runs.folder.write("images/t10k-labels-idx1-ubyte", label_file(22));
  CHECK_THAT(run({"train_resnet", "--resume", runs.path("run"), "--steps", "99"}).errors,
             Contains("the run was validated on another set of images than that of"));
}

TEST_CASE("train_resnet shows images per second and the accuracy while it runs") {
  ImageRuns runs;
  Finished result = run(runs.words("run", {"--evaluate-every", "2"}));
  CHECK_THAT(result.output, Contains("48 images of 4 classes to train on, 22 to validate; data on "
                                     "one rank"));
  CHECK_THAT(result.output, Contains(" images/s  ") && Contains("% right)  "));
  CHECK_THAT(result.output, Contains("\nvalidation loss ") && Contains(", accuracy "));
}

TEST_CASE("train_resnet gives the same numbers in stages, on replicas, and recomputed") {
  ImageRuns runs;
  runs.train("one", {"--microbatches", "2"});
  runs.train("stages", two_stages);
  runs.check_equal("one", "stages");
  runs.train("replicas", two_replicas);  // batch norm sees the same microbatches
  runs.check_equal("one", "replicas");
  runs.train("recomputed", {"--microbatches", "2", "--recompute"});
  runs.check_equal("one", "recomputed");
  runs.train("stages recomputed", two_stages + Words{"--recompute"});
  runs.check_equal("one", "stages recomputed");
  CHECK(summary_of(runs.path("stages"))["bytes_sent"].contains("activations"));
  CHECK(summary_of(runs.path("replicas"))["bytes_sent"].contains("reductions"));
}

TEST_CASE("a stopped train_resnet goes on to the bits of one that was not stopped") {
  ImageRuns runs;
  for (const Words& flags : {Words{"--clip", "1"}, two_stages, two_replicas,
                             two_stages + Words{"--schedule", "2bw", "--optimizer", "adamw"},
                             Words{"--dtype", "bf16"}}) {
    CAPTURE(flags);
    runs.train("whole", flags);
    runs.train("parts", flags + Words{"--stop-after", "3"});
    runs.succeed({"train_resnet", "--resume", runs.path("parts")});
    REQUIRE(metrics_of(runs.path("whole")).size() == 7);
    runs.check_same("whole", "parts");
  }
}

TEST_CASE("train_resnet refuses data that it can't train on, before it writes") {
  ImageRuns runs;
  const std::string package =
      "dataset-fashion-mnist provides (examples/install_packages.sh --images";
  runs.check_refused({"--data", runs.folder / "none"}, package);
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    runs.check_refused({"--data", "fashion-mnist"}, package);
  runs.check_refused({"--batch", "49"}, "there are 48 images to train on");
  runs.folder.write("images/train-labels-idx1-ubyte", label_file(47));
  runs.check_refused({}, "48 images and 47 labels");
}

TEST_CASE("train_resnet refuses flags that make no sense, before it writes") {
  ImageRuns runs;
  runs.check_refused({"--stages", "11"}, "a model of 10 layers can't be cut into 11 stages");
  runs.check_refused({"--width", "0"}, "--width: expected a whole number, 1 or more");
  runs.check_refused({"--width", "1000000"}, "GB of memory, the machine has");
  runs.check_refused({"--optimizer", "adam"},
                     "--optimizer: expected one of sgd, adamw; got adam; did you mean adamw?");
  runs.check_refused({"--min-learning-rate", "1"}, "is above --learning-rate 0.05");
  runs.check_refused({"--microbatches", "3"}, "--batch 8 does not divide into 3 microbatches");
  runs.check_refused({"--setting", "model"}, "--setting model: the schedule data has no settings");
  runs.check_refused({"--zero", "4"}, "--zero: expected a whole number from 0 to 3");
  runs.check_refused({"--zero", "1"}, "with one there is nothing to share");
  runs.check_refused(two_stages + two_replicas + Words{"--zero", "2"},
                     "can't be combined with 1f1b");
  runs.check_refused({"--ranks", "3", "--data-parallel", "2"},
                     "3 ranks: the schedule data with --stages 1 and --data-parallel 2 needs 2");
}

TEST_CASE("train_resnet refuses to resume what is not the same run") {
  ImageRuns runs;
  runs.train("run");
  const std::string text = runs.folder.write("text.txt", repeat("abcdefgh", 50));
  REQUIRE(run(tiny_run(text, runs.path("text run"))).status == 0);
  auto check = [&](const std::string& from, const Words& more, const std::string& part) {
    runs.check_refused(Words{"--resume", runs.path(from), "--steps", "9"} + more, part);
  };
  check("text run", {}, "its checkpoint was not written by train_resnet");
  check("run", {"--width", "4"}, "the run began with --width 2, not 4");
  check("run", {"--optimizer", "adamw"}, "the run began with --optimizer \"sgd\"");
  check("run", {"--steps", "6"}, "the run has done 6 of its 6 updates");
  runs.folder.write("images/train-labels-idx1-ubyte", label_file(48, 1));
  check("run", {}, "is not the set of images that the run began with");
}

TEST_CASE("the help of train_resnet lists its flags") {
  Finished help = succeeded(run({"train_resnet", "--help"}));
  for (const char* flag : {"--width", "--data", "--steps", "--learning-rate", "--optimizer",
                           "--momentum", "--weight-decay", "--clip", "--resume", "--schedule",
                           "--setting", "--zero", "--ranks", "--transport", "--timeout"})
    CHECK_THAT(help.output, Contains(std::string("\n  ") + flag + " "));
  CHECK_THAT(help.output, Contains("64 is ResNet-18"));
}

TEST_CASE("train_resnet learns the same in every cyclic setting, its batch statistics, too") {
  for (const std::string schedule : {"cyclic-v1", "cyclic-v2"}) {
    ImageRuns runs;
    const Words three{"--schedule", schedule, "--stages", "3", "--batch", "12"};
    runs.train("alone", three + Words{"--setting", "one-device"});
    const std::vector<json> alone = losses_of(runs.path("alone"));
    REQUIRE(alone.size() == 7);
    CHECK(alone.back()["validation_loss"].is_number());  // by running statistics
    for (const char* setting : {"data", "pipeline", "model", "zero"}) {
      CAPTURE(schedule, setting);
      runs.train(setting, three + Words{"--setting", setting});
      CHECK(losses_of(runs.path(setting)) == alone);
    }
    runs.train("again", three + Words{"--setting", "data", "--recompute"});
    CHECK(losses_of(runs.path("again")) == alone);
  }
}

TEST_CASE("train_resnet learns the same with ZeRO, its batch statistics, too") {
  ImageRuns runs;
  const Words replicas = two_replicas + Words{"--schedule", "data", "--stages", "3"};
  auto learnt = [&](const char* name, const Words& more) {
    runs.train(name, replicas + more);
    std::vector<json> lines = losses_of(runs.path(name));
    for (json& line : lines) line.erase("gradient_norm");  // which shards add up in another order
    return lines;
  };
  const std::vector<json> plain = learnt("plain", {}), sharded = learnt("sharded", {"--zero", "2"});
  REQUIRE(plain.size() == 7);
  CHECK(plain.back()["validation_loss"].is_number());  // by running statistics
  CHECK(plain == sharded);
  CHECK(summary_of(runs.path("sharded"))["bytes_sent"] !=
        summary_of(runs.path("plain"))["bytes_sent"]);
}

#if EMULATOR_BUILT
TEST_CASE("train_resnet on emulated devices gives the CPU's losses, over NCCL and staged") {
  ImageRuns runs;
  // The larger the batch, the less batch norm, which divides by its deviations, makes of roundings.
  const Words ranks{"--schedule", "data",    "--ranks", "2",       "--stages",
                    "1",          "--steps", "2",       "--batch", "32"};
  runs.train("cpu", ranks);
  runs.train("staged", ranks + Words{"--device", "emulator"});
  runs.train("nccl", ranks + Words{"--device", "emulator", "--transport", "nccl"});
  runs.train("graphs", ranks + Words{"--device", "emulator", "--cuda-graph"});
  runs.check_same("staged", "nccl");
  runs.check_same("staged", "graphs");
  // Two steps of some 2,000 roundings each, whose sum grows as their number's root.
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(losses_of(runs.path("nccl"))[i]["loss"].get<double>() ==
          Approx(losses_of(runs.path("cpu"))[i]["loss"].get<double>()).epsilon(64.0 / (1 << 24)));
}
#endif
