// train_gpt with cyclic schedules and with ZeRO: what a run writes, and that the form it takes does
// not change its numbers. Not here: flags (schedule_flags_test).

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

const Words model{"--batch", "12", "--untied", "--clip", "0"};

struct Form {
  std::string setting, ranks;
  std::vector<std::string> sends;

  Words flags(const std::string& rule) const {
    return {"--schedule", "cyclic-" + rule, "--setting", setting,    "--ranks",
            ranks,        "--stages",       "3",         "--layers", "2"};
  }
};

const std::vector<Form> forms{
    {"one-device", "1", {}},
    {"data", "3", {"gradient sums"}},
    {"pipeline", "3", {"activation gradients", "activations"}},
    {"model", "6", {"activation gradients", "activations", "gradient sums"}},
    {"zero", "3", {"gradient sums", "weights"}}};

const Words replicas{"--schedule", "data", "--data-parallel", "3",
                     "--stages",   "6",    "--layers",        "4"};

std::vector<std::string> kinds_of(const json& bytes) {
  std::vector<std::string> kinds;
  for (const auto& [kind, sent] : bytes.items())
    if (sent > 0) kinds.push_back(kind);
  return kinds;
}

/// What the run learnt, without what it sent, and norms, which settings add up in other orders.
std::vector<json> learnt(const std::string& folder) {
  std::vector<json> lines = losses_of(folder);
  for (json& line : lines)
    for (const char* other : {"bytes_sent", "gradient_norm"}) line.erase(other);
  return lines;
}

/// What all ranks keep at a time lies between the peak of one rank and the sum of all peaks. A rank
/// that is alone waits for nobody.
void check_totals(const json& summary, bool alone) {
  std::int64_t largest = 0, sum = 0;
  for (const json& rank : summary["peak_bytes"]) {
    const std::int64_t peak = rank["activations"];
    largest = std::max(largest, peak);
    sum += peak;
  }
  CHECK(summary["peak_activation_bytes"] >= largest);
  CHECK(summary["peak_activation_bytes"] <= sum);
  const double bubble = summary["bubble"]["simulated"];
  CHECK((bubble == 0) == alone);
  CHECK(bubble < 1);
  std::int64_t sent = 0;
  for (const auto& [kind, bytes] : summary["bytes_sent"].items()) sent += bytes.get<std::int64_t>();
  CHECK((sent == 0) == alone);
  // Of the inner updates, in which nothing is sent if ranks drift apart.
  CHECK(summary["largest_burst_bytes"] <= sent);
}

}  // namespace

TEST_CASE("cyclic runs send what their setting sends, and learn the same in all of them") {
  for (const std::string rule : {"v1", "v2"}) {
    Runs runs{model};
    for (const Form& form : forms) {
      CAPTURE(rule, form.setting);
      runs.train(form.setting, form.flags(rule));
      const json summary = summary_of(runs.path(form.setting));
      CHECK(kinds_of(summary["bytes_sent"]) == form.sends);
      check_totals(summary, form.ranks == "1");
      CHECK(learnt(runs.path(form.setting)) == learnt(runs.path("one-device")));
    }
  }
}

TEST_CASE("a cyclic run that clips, with a tied embedding, needs no other flags") {
  Runs runs{{"--layers", "2", "--batch", "12"}};
  runs.train("run", {"--schedule", "cyclic-v1", "--ranks", "4"});
  const json summary = summary_of(runs.path("run"));
  CHECK(summary["config"]["flags"]["--clip"] == 1);
  CHECK(summary["bytes_sent"]["norms"] > 0);
}

TEST_CASE("a cyclic run that was stopped goes on to the bits of one that was not") {
  for (const Form& form : fewer(forms)) {
    CAPTURE(form.setting);
    Runs runs{model + form.flags("v2")};
    runs.train("whole");
    runs.train("parts", {"--stop-after", "3"});
    runs.resume("parts");
    CHECK(learnt(runs.path("whole")) == learnt(runs.path("parts")));
    CHECK(weights_of(runs.path("whole")) == weights_of(runs.path("parts")));
  }
}

TEST_CASE("a plan of the user's own, of later steps, begins a cyclic run and goes on") {
  for (const Form& form : fewer(forms)) {
    CAPTURE(form.setting);
    Runs runs{model};
    runs.train("schedule", form.flags("v2"));
    const std::string file = runs.path("own.plan");
    Words show{"plan", "show", "--schedule", "cyclic-v2", "--setting", form.setting};
    Finished shown = succeeded(run(show + Words{"--stages", "3", "--steps", "2", "--first", "1"}));
    plangrad::nn::write_file(file, shown.output);
    runs.train("plan", {"--plan", file, "--layers", "2"});
    CHECK(learnt(runs.path("schedule")) == learnt(runs.path("plan")));
    CHECK(weights_of(runs.path("schedule")) == weights_of(runs.path("plan")));
  }
}

TEST_CASE("ZeRO changes the memory of a run, and no number, and resumes with more or less of it") {
  Runs runs{model};
  runs.train("0", replicas);
  std::vector<json> peak{summary_of(runs.path("0"))["peak_bytes"][0]};
  for (const char* zero : {"1", "2", "3"}) {
    CAPTURE(zero);
    runs.train(zero, replicas + Words{"--zero", zero});
    CHECK(learnt(runs.path("0")) == learnt(runs.path(zero)));
    CHECK(weights_of(runs.path("0")) == weights_of(runs.path(zero)));
    peak.push_back(summary_of(runs.path(zero))["peak_bytes"][0]);
    runs.train("parts", replicas + Words{"--zero", zero, "--stop-after", "3"});
    runs.resume("parts", replicas + Words{"--zero", zero == std::string("3") ? "1" : "3"});
    CHECK(learnt(runs.path("0")) == learnt(runs.path("parts")));
  }
  CHECK(peak[1]["optimizer"] < peak[0]["optimizer"]);
  CHECK(peak[2]["gradients"] < peak[1]["gradients"]);
  CHECK(peak[3]["weights"] < peak[2]["weights"]);
}
