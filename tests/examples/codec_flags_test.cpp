// Flags of codecs and reductions, in training programs and in plan: what a run then sends, and what
// they refuse. Not here: every combination (codec_table_test), numbers (tests/parallel/).

#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

const Words model{"--layers", "2", "--width", "32", "--batch", "12"};
const Words replicas{"--schedule", "data", "--data-parallel", "3"};
const Words pipeline{"--schedule", "1f1b", "--stages", "2"};

double sent(const Runs& runs, const std::string& name, const char* kind) {
  return summary_of(runs.path(name))["bytes_sent"][kind];
}

}  // namespace

TEST_CASE("codecs that make messages larger are refused, and codecs beside a plan") {
  const Runs runs{{"--width", "32", "--schedule", "data", "--ranks", "2"}};
  for (const char* codec : {"quantize:4:1", "quantize:8:2", "topk:1", "adaptive:1:2"})
    runs.check_refused({"--codec", codec},
                       std::string("--codec ") + codec + " makes messages larger");
  const std::string file =
      runs.folder.write("a.plan", "stages 1 per_step 1 steps 1\n0F0v0 0B0v0 0Sv1\n");
  const Runs planned;
  planned.check_refused({"--plan", file, "--codec", "quantize:4"},
                        "a plan's first line says how its messages are encoded");
  planned.check_refused({"--plan", file, "--cuts", "1"},
                        "--cuts 1: cut there, a model has 2 stages, and the plan has 1");
}

TEST_CASE("plan shows the codecs that its flags ask for, and reads them back") {
  const Words show = Words{"plan", "show"} + pipeline + Words{"--data-parallel", "2"};
  const std::string shown =
      output_of(show + Words{"--codec", "quantize:4", "--codec-channel", "topk:0.1"});
  CHECK_THAT(shown, Contains(" codec quantize:4 channel topk:0.1\n"));
  Folder folder;
  const std::string file = folder.write("own.plan", shown);
  CHECK(output_of({"plan", "show", file}) == shown);
  CHECK(run({"plan", "verify", file}).status == 0);
  CHECK_THAT(run(show).output, !Contains("codec"));
  CHECK_THAT(run(show + Words{"--codec", "quantize:9"}).errors,
             Contains("--codec: quantize:9: 9 can't be the number of bits; use 1 to 8 bits"));
  CHECK_THAT(run(Words{"plan", "show", file, "--codec", "bf16"}).errors, Contains("--codec"));
}

TEST_CASE("a run whose sums are encoded sends less, and says how") {
  Runs runs{model + replicas};
  runs.train("plain");
  runs.train("bf16", {"--codec", "bf16"});
  runs.train("4", {"--codec", "quantize:4"});
  runs.train("sparse", {"--codec", "topk:0.01"});
  CHECK(sent(runs, "bf16", "reductions") < 0.6 * sent(runs, "plain", "reductions"));
  CHECK(sent(runs, "4", "reductions") < 0.2 * sent(runs, "plain", "reductions"));
  CHECK(sent(runs, "sparse", "reductions") < 0.1 * sent(runs, "plain", "reductions"));
  CHECK(summary_of(runs.path("4"))["config"]["flags"]["--codec"] == "quantize:4");
}

TEST_CASE("a run whose activations are encoded sends less of them") {
  Runs runs{model + pipeline};
  runs.train("plain");
  runs.train("4", {"--codec-channel", "quantize:4"});
  for (const char* kind : {"activations", "activation gradients"})
    CHECK(sent(runs, "4", kind) < 0.2 * sent(runs, "plain", kind));
}

TEST_CASE("codecs that would find nothing in a model are refused") {
  // All matrices of a block of width 8 have less than 1024 elements.
  const Runs small{replicas + Words{"--width", "8", "--batch", "12"}};
  for (const std::string codec : {"bf16", "quantize:4", "topk:0.1", "lowrank:2"})
    small.check_refused({"--codec", codec}, "--codec " + codec + ": of the sums that leave");
  // The only sum that leaves its rank is that of the table, of 11 x 32.
  Runs{model}.check_refused(pipeline + Words{"--codec", "quantize:4"}, "and this model has none");
  // The largest matrices are 32 x 128: (32 + 128) 25 < 32 * 128.
  for (const std::string codec : {"lowrank", "pca"}) {
    Runs{model}.train(codec, replicas + Words{"--codec", codec + ":25"});
    Runs{model}.check_refused(replicas + Words{"--codec", codec + ":26"},
                              "are larger than any matrix of this model; use a rank of 25 or less");
  }
}

TEST_CASE("adaptive bits that no update would use are refused") {
  const Runs runs{model + replicas};
  runs.check_refused({"--codec", "adaptive"},
                     "bits are chosen after each 100 updates, and this run ends after 6");
  runs.check_refused({"--codec", "adaptive:64:6"}, "use quantize:4, more --steps, or a shorter");
  runs.train("chosen", {"--codec", "adaptive:64:5", "--stop-after", "2"});
  runs.resume("chosen", {"--codec", "adaptive:64:3", "--stop-after", "2"});
  const Words on{"train_gpt", "--resume", runs.path("chosen"), "--out", runs.path("other")};
  CHECK(run(on + Words{"--codec", "adaptive:64:10"}).status == 0);  // goes on with bits that it has
  runs.train("plain", {"--stop-after", "4"});
  const Words late{"train_gpt", "--resume", runs.path("plain"), "--codec", "adaptive:64:3"};
  CHECK_THAT(run(late).errors, Contains("and this run ends after 6 with those that it began with"));
}

TEST_CASE("sums by hosts are those of the hosts that a flag says, or are refused") {
  const Runs runs{model + Words{"--schedule", "data", "--ranks", "4", "--batch", "12"}};
  const Words hierarchical{"--reduction", "hierarchical"};
  runs.check_refused(hierarchical, "--reduction hierarchical: no group");  // threads of one host
  for (const char* all_or_one : {"1", "4", "9"})
    runs.check_refused(hierarchical + Words{"--ranks-per-host", all_or_one}, "what scatter does");
  runs.check_refused({"--ranks-per-host", "2"}, "--reduction scatter ignores hosts");
  runs.check_refused(hierarchical + Words{"--ranks-per-host", "0"}, "--ranks-per-host");
  runs.train("scatter");
  runs.train("hosts", hierarchical + Words{"--ranks-per-host", "2"});
  runs.train("parts", hierarchical + Words{"--ranks-per-host", "2", "--stop-after", "3"});
  runs.resume("parts");
  runs.check_same("hosts", "parts");
  CHECK(weights_of(runs.path("hosts")) != weights_of(runs.path("scatter")));  // another order
}

TEST_CASE("plan simulate counts the bytes of encoded messages") {
  const Words simulate = Words{"plan", "simulate", "--microbatches", "4"} + pipeline;
  auto bytes = [&](const Words& more) { return json_of(simulate + more)["bytes"]; };
  // 10,000 values of f32; ten buckets; a thousand values, whose indices go one way only.
  const Words activations{"--activation-bytes", "40000", "--codec-channel"};
  CHECK(bytes(activations + Words{"none"}) == 4 * 2 * 40000);
  CHECK(bytes(activations + Words{"bf16"}) == 4 * 2 * 20000);
  CHECK(bytes(activations + Words{"quantize:4"}) == 4 * 2 * (10 * 8 + 5000));
  CHECK(bytes(activations + Words{"topk:0.1"}) == 4 * (8000 + 4000));
  // A training sends as many: 3 sequences of 8 tokens, each a row of 32 values.
  Runs runs{model + pipeline + Words{"--microbatches", "4", "--codec-channel", "topk:0.1"}};
  runs.train("run", {"--untied", "--steps", "5"});
  CHECK(sent(runs, "run", "activations") + sent(runs, "run", "activation gradients") ==
        5 * bytes({"--activation-bytes", std::to_string(3 * 8 * 32 * 4), "--codec-channel",
                   "topk:0.1"})
                .get<double>());

  const Words sums{"--data-parallel", "2", "--codec", "lowrank:4", "--weight-bytes"};
  CHECK(bytes(sums + Words{"0"}) == 0);
  check_refused(simulate + sums + Words{"4096"},
                "how many bytes the codec lowrank:4 sends depends on the shapes");
}

TEST_CASE("codecs and reductions without anything to act on are refused") {
  Runs{model}.check_refused({"--codec", "quantize:4"},
                            "the codec quantize:4 is for sums of gradients");
  Runs{model}.check_refused(pipeline + Words{"--untied", "--codec", "topk:0.1"},
                            "encode activations with --codec-channel");
  Runs{model}.check_refused(replicas + Words{"--codec-channel", "bf16"},
                            "the channel's codec bf16 is for");
  Runs{model}.check_refused(pipeline + Words{"--codec-channel", "lowrank:2"},
                            "for activations use quantize");
  Runs{model}.check_refused({"--schedule", "cyclic-v1", "--ranks", "3", "--codec", "lowrank:2"},
                            "needs a group that sums its factors");
  Runs{model}.check_refused(
      {"--schedule", "cyclic-v1", "--ranks", "3", "--untied", "--reduction", "ring"},
      "--reduction ring: in this plan no group of ranks sums gradients");
  Runs{model}.check_refused(pipeline + Words{"--untied", "--reduction", "tree"},
                            "--reduction tree: in this plan no group");
  for (const char* reduction : {"tree", "hierarchical"})
    Runs{model}.check_refused(replicas + Words{"--zero", "1", "--reduction", reduction},
                              "has no part of the sum for each member, which ZeRO needs");
  Runs{model}.check_refused(pipeline + Words{"--dtype", "bf16", "--codec-channel", "bf16"},
                            "--codec-channel bf16: activations of this run are bf16 already");
  Runs{model}.check_refused(replicas + Words{"--codec", "gzip"},
                            "there is no such codec; use none, bf16");
  Runs{model}.check_refused(
      replicas + Words{"--reduction", "star"},
      "expected one of auto, hierarchical, ring, scatter, tree, nccl; got star");
}
