// Plans that name codecs: their text, and which of them make no sense.
// Not here: what users can type (codec_spec_test), flags (tests/examples/).

#include "parallel/schedules/schedule.h"
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::parallel;
using plangrad::tests::is_cyclic;

namespace {

/// Two stages and two replicas; a cyclic one has two stages and as many microbatches.
Layout layout_of(const std::string& schedule, const std::string& codec,
                 const std::string& channel) {
  Layout layout{.stages = 2};
  if (!is_cyclic(schedule)) layout.width = layout.microbatches = 2;
  layout.codec = parse_codec(codec);
  layout.channel = parse_codec(channel);
  return layout;
}

}  // namespace

TEST_CASE("a plan's text has its codecs, and is read back", "[codec][plan]") {
  for (const char* codec : {"none", "bf16", "quantize:4", "quantize:2:64:stochastic",
                            "adaptive:128", "topk:0.01", "threshold:0.5:7", "lowrank:4", "pca:2:5"})
    for (const char* channel : {"none", "quantize:8:512", "topk:0.1"}) {
      const Plan plan = make_plan("1f1b", layout_of("1f1b", codec, channel));
      const std::string text = print(plan), header = text.substr(0, text.find('\n'));
      INFO(header);
      CHECK(parse(text) == plan);
      CHECK(print(parse(text)) == text);
      CHECK((header.find(" codec ") != header.npos) == (plan.codec != CodecSpec{}));
      CHECK((header.find(" channel ") != header.npos) == (plan.channel != CodecSpec{}));
      if (plan.codec != CodecSpec{}) CHECK_THAT(header, Contains(std::string(" codec ") + codec));
    }
  const std::string one = "stages 1 per_step 1 steps 1 codec ";
  CHECK_THROWS_WITH(parse(one + "gzip\n0F0v0 0B0v0 0Sv1"), Contains("there is no such codec"));
  CHECK_THROWS_WITH(parse(one + "quantize:9\n0F0v0 0B0v0 0Sv1"), Contains("use 1 to 8 bits"));
}

TEST_CASE("a codec changes no row of a plan", "[codec][plan]") {
  for (const Schedule* each : schedules()) {
    const std::string schedule = each->name;
    Layout layout = layout_of(schedule, "quantize:4", "none");
    if (is_cyclic(schedule)) layout.setting = Setting::model;
    const Plan encoded = make_plan(schedule, layout);
    layout.codec = {};
    const Plan plain = make_plan(schedule, layout);
    CHECK(encoded.rows == plain.rows);
    CHECK(verify(encoded).facts().capacity == verify(plain).facts().capacity);
  }
}

TEST_CASE("codecs without anything to encode are refused", "[codec][plan]") {
  auto refused = [](const char* schedule, Layout layout, const char* words) {
    INFO(schedule);
    CHECK_THROWS_WITH(make_plan(schedule, layout), Contains(words));
  };
  // No sum leaves its rank.
  Layout alone = layout_of("1f1b", "quantize:4", "none");
  alone.width = 1;
  refused("1f1b", alone, "the codec quantize:4 is for sums of gradients, and in this plan none");
  refused("1f1b", alone, "leave it out, or encode activations with --codec-channel");
  alone.stages = 1;
  refused("data", alone, "leave it out");
  Layout pipeline = layout_of("cyclic-v2", "topk:0.1", "none");
  pipeline.setting = Setting::pipeline;
  refused("cyclic-v2", pipeline, "the codec topk:0.1 is for sums of gradients");
  pipeline.setting = Setting::one_device;
  refused("cyclic-v1", pipeline, "the codec topk:0.1 is for sums of gradients");
  // Sums that are passed on have no group.
  for (const char* codec : {"lowrank:2", "pca:2"})
    for (Setting setting : {Setting::data, Setting::model, Setting::zero}) {
      Layout passing = layout_of("cyclic-v1", codec, "none");
      passing.setting = setting;
      refused("cyclic-v1", passing, "needs a group that sums its factors");
    }
  // No activation leaves its rank.
  refused("data", layout_of("data", "none", "quantize:4"),
          "the channel's codec quantize:4 is for activations, and in this plan none");
  refused("cyclic-v1", layout_of("cyclic-v1", "none", "bf16"),
          "the channel's codec bf16 is for activations, and in this plan none");
  for (const char* channel : {"lowrank:2", "pca:2", "adaptive"})
    refused("gpipe", layout_of("gpipe", "none", channel), "is for gradients; for activations use");
}

TEST_CASE("an evaluation's plan names no codec", "[codec][plan]") {
  const Plan plan = make_plan("1f1b", layout_of("1f1b", "quantize:4", "topk:0.1"));
  const Plan evaluation = make_evaluation(plan, 1, 4);
  CHECK(evaluation.codec == CodecSpec{});
  CHECK(evaluation.channel == CodecSpec{});
  CHECK(later_plan(plan, 3).codec == plan.codec);
  CHECK(later_plan(plan, 3).channel == plan.channel);
}
