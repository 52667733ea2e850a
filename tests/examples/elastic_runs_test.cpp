// train_gpt --lose and --elastic: runs that lose ranks save what is left, and go on. Not here: the
// layouts that are left (elastic_layouts_test.cpp), and the program elastic
// (elastic_launcher_test.cpp).
#include "nn/checkpoint/checkpoint.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

/// The losses of the two runs that both know are equal but for the order of sums: an update's
/// weights get other last bits, and after `updates` of them a loss differs by a few per mille.
void check_near(const std::map<int, double>& some, const std::map<int, double>& all) {
  for (const auto& [update, loss] : some) CHECK(loss == Approx(all.at(update)).epsilon(2e-3));
}

}  // namespace

TEST_CASE("the last update is saved when a rank is lost and replicas hold its weights") {
  const Runs runs{{"--data-parallel", "2"}};
  runs.train("whole");
  const Finished lost = run(runs.words("lost", {"--lose", "1@5"}));
  CHECK(lost.status == 1);
  CHECK_THAT(lost.errors, Contains("update 4 is saved, as all its weights are still here"));
  CHECK_THAT(lost.errors, Contains("rank 1: is lost"));
  runs.resume("lost");
  const bool same_weights = weights_of(runs.path("whole")) == weights_of(runs.path("lost"));
  CHECK(same_weights);
  check_near(losses_by_update(runs.path("lost")), losses_by_update(runs.path("whole")));
}

TEST_CASE("the last update of a run with a codec is saved without what the codec left out") {
  const Runs runs{{"--data-parallel", "2", "--codec", "topk:0.3"}};
  const Finished lost = run(runs.words("lost", {"--lose", "1@5"}));
  CHECK_THAT(lost.errors, Contains("update 4 is saved, as all its weights are still here, but not "
                                   "what topk:0.3 left out of messages; continue"));
  runs.train("stopped", {"--stop-after", "4"});
  const auto all = weights_of(runs.path("stopped")), saved = weights_of(runs.path("lost"));
  CHECK(all.size() == saved.size() + 2);            // what each rank left out
  for (std::size_t i = 0; i < saved.size(); ++i) {  // weights, and the optimizer's state
    const bool same = saved[i] == all[i];
    CHECK(same);
  }
  runs.resume("lost");
  const Runs adaptive{{"--data-parallel", "2", "--codec", "adaptive:64:2", "--steps", "9"}};
  CHECK_THAT(run(adaptive.words("lost", {"--lose", "1@6"})).errors,
             Contains("update 5 is saved, as all its weights are still here; continue"));
  CHECK(plangrad::nn::Checkpoint(adaptive.path("lost/checkpoint")).run().contains("bits"));
  adaptive.resume("lost");
}

TEST_CASE(
    "the last update of a pruned run is saved when a rank is lost, with what it needs to go on") {
  const Words ways[] = {
      {"--samo", "--prune-after", "2"},
      {"--prune-method", "gradual", "--prune-after", "1", "--prune-until", "6"},
      {"--samo", "--prune-method", "lottery", "--prune-after", "1", "--prune-every", "1"}};
  for (const Words& way : ways) {
    CAPTURE(way);
    const Runs runs{Words{"--data-parallel", "2", "--prune", "0.5", "--steps", "9"} + way};
    runs.train("whole");
    const Finished lost = run(runs.words("lost", {"--lose", "1@6"}));
    CHECK_THAT(lost.errors, Contains("update 5 is saved, as all its weights are still here"));
    runs.resume("lost");
    const bool same_weights = weights_of(runs.path("whole")) == weights_of(runs.path("lost"));
    CHECK(same_weights);
  }
  const Runs drawn{{"--data-parallel", "2", "--prune", "0.5", "--prune-method", "early-bird",
                    "--prune-after", "1", "--prune-every", "1", "--steps", "9"}};
  CHECK_THAT(
      run(drawn.words("lost", {"--lose", "1@4"})).errors,
      Contains("the last updates are lost, as masks that are drawn are saved between plans"));
}

TEST_CASE("a file that an interrupted save has left does not harm the next save") {
  const Runs runs;
  runs.train("run", {"--stop-after", "3"});
  runs.folder.write("run/checkpoint/model-4.safetensors", "left");
  const Finished ended = run({"train_gpt", "--resume", runs.path("run"), "--save-every", "1"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, !Contains("NOT SAVED"));
}

TEST_CASE("a lost stage leaves the newest save, and the run says which") {
  const Runs runs{{"--stages", "2", "--microbatches", "2"}};
  Finished lost = run(runs.words("lost", {"--save-every", "2", "--lose", "1@6"}));
  CHECK(lost.status == 1);
  CHECK_THAT(lost.errors, Contains("no rank that is left here holds stage 1; the newest save is of "
                                   "update 4; continue with --resume"));
  lost = run(runs.words("unsaved", {"--lose", "1@5"}));
  CHECK_THAT(lost.errors, Contains("holds stage 1; nothing was saved before"));
  // The same command begins anew, and an elastic run does so by itself.
  lost = run(runs.words("unsaved", {"--lose", "1@5"}));
  CHECK_THAT(lost.errors, Contains("holds stage 1; nothing was saved before"));
  lost = run(runs.words("elastic", {"--lose", "1@5", "--elastic"}));
  CHECK(lost.status == 0);
  CHECK_THAT(lost.output, Contains("updates done again: 4"));
}

TEST_CASE("the last update is saved when a loss is not finite") {
  const Runs runs{{"--clip", "0", "--steps", "40"}};
  check_ended(run(runs.words("broken", {"--learning-rate", "1e20"})), 3,
              "/diverged, as all its weights are still here");
  const int saved = step_of(runs.path("broken/diverged"));
  const auto losses = losses_by_update(runs.path("broken"));
  CHECK(saved >= 1);
  CHECK(static_cast<int>(losses.size()) == saved);
}

TEST_CASE(
    "shards make the last update whole when a loss is not finite, but not when a rank is lost") {
  const Words broken{"--clip", "0", "--steps", "40", "--learning-rate", "1e20"};
  for (const char* level : {"0", "1", "2", "3"}) {
    CAPTURE(level);
    const Runs runs{Words{"--data-parallel", "2", "--zero", level} + broken};
    CHECK_THAT(run(runs.words("broken")).errors,
               Contains("/diverged, as all its weights are still here"));
    const auto weights = weights_of(runs.path("broken/diverged"));
    static const auto whole = weights;  // those of level 0
    const bool same_weights = weights == whole;
    CHECK(same_weights);
  }
  const Runs runs{{"--data-parallel", "2", "--zero", "1"}};
  CHECK_THAT(run(runs.words("lost", {"--lose", "1@5"})).errors,
             Contains("lost, as 1 of 2 shards of stage 0 are left here (ZeRO); nothing was saved"));
}

TEST_CASE("an elastic run loses ranks, goes on with those that are left, and takes them back") {
  const Runs runs{{"--stages", "2", "--data-parallel", "2", "--microbatches", "2", "--batch", "12",
                   "--steps", "30", "--evaluate-every", "5"}};
  runs.train("whole");
  const Finished elastic =
      succeeded(run(runs.words("elastic", {"--elastic", "--lose", "1@4-8,3@14,2@19,0@24"})));
  const std::string folder = runs.path("elastic");
  CHECK(plangrad::nn::Checkpoint(folder + "/checkpoint").step() == 30);
  // Rank 1 is back at the border after update 10; of a stage that nobody else holds, updates are
  // done again from there.
  CHECK_THAT(elastic.output, Contains("rank 1 is lost in update 4; the run goes on after update 3, "
                                      "0 updates are done again; 3 ranks are left"));
  CHECK_THAT(elastic.output, Contains("rank 1 is back after update 10"));
  CHECK_THAT(elastic.output, Contains("ranks lost: 4"));
  const auto losses = losses_by_update(folder), whole = losses_by_update(runs.path("whole"));
  CHECK(losses.size() >= 26);  // a loss that a lost rank alone knew is gone
  check_near(losses, whole);
  json told = json::array();
  for (const json& line : metrics_of(folder))
    if (line.contains("elastic")) told.push_back(line["step"]);
  CHECK(told == json{3, 10, 13, 13, 13});
  json events = json::array();
  const json report = report_of(folder);
  for (const json& event : report["metrics"]["events"])
    if (event["what"] == "elastic") events.push_back(event["step"]);
  CHECK(events == told);
}

TEST_CASE("an elastic run that goes back to an older update continues from what it has saved") {
  const Runs runs{{"--data-parallel", "2", "--evaluate-every", "0"}};
  runs.train("run", {"--save-every", "2", "--steps", "4"});
  const Words often{"manifest.json", "manifest-6.json"};
  const std::tuple<std::string, Words, std::string, Words> losses[] = {
      {"back", {"--lose", "1@3"}, "2", often},
      {"moved", {"--lose", "1@3-4"}, "2", often},
      {"back", {"--lose", "1@6"}, "5", often},
      {"back",
       {"--lose", "1@6", "--save-every", "0", "--keep", "5"},
       "5",
       {"manifest.json", "manifest-5.json", "manifest-2.json"}}};  // 4 was not continued from
  for (const auto& [folder, more, from, manifests] : losses) {
    CAPTURE(more);
    const std::string out = runs.path(folder);
    std::filesystem::remove_all(runs.path("back"));
    std::filesystem::copy(runs.path("run"), runs.path("back"),
                          std::filesystem::copy_options::recursive);
    const Words back{"train_gpt", "--resume", runs.path("back"), "--at", "2", "--out", out};
    const Finished ended = succeeded(run(back + Words{"--steps", "8", "--elastic"} + more));
    CHECK_THAT(ended.output, Contains("goes on after update " + from + ", 0 updates are done"));
    CHECK(step_of(out) == 8);
    CHECK(plangrad::nn::manifests_of(out + "/checkpoint") == manifests);
    CHECK(losses_by_update(out).size() >= 5);  // rank 1 alone may know a few
  }
}

TEST_CASE("an elastic run drops the flags that fewer ranks can't have, and names them") {
  const std::pair<Words, const char*> layouts[] = {
      {{"--stages", "3", "--cuts", "1,2"}, " --cuts=1,2"},
      {{"--data-parallel", "2", "--zero", "1"}, " --zero=1"},
      {{"--data-parallel", "2", "--codec", "bf16"}, " --codec=bf16"},
      {{"--stages", "2", "--codec-channel", "bf16"}, " --codec-channel=bf16"},
      {{"--schedule", "interleaved", "--stages", "4"}, " --stages=4"},
      {{"--data-parallel", "2", "--reduction", "ring"}, "; --reduction ring gives way"},
      {{"--data-parallel", "3", "--reduction", "hierarchical", "--ranks-per-host", "2"},
       "; --reduction hierarchical gives way"},
      {{"--stages", "2", "--pretend-compute", "1e-3,0;2e-3,0"}, "; nothing is pretended"},
      {{"--stages", "2", "--pretend-link", "0,1e9"}, "; nothing is pretended"}};
  for (const auto& [layout, gone] : layouts) {
    const Runs runs{Words{"--layers", "2", "--microbatches", "2", "--save-every", "1"} + layout};
    const Finished ended =
        succeeded(run(runs.words("run", {"--batch", "12", "--elastic", "--lose", "1@3"})));
    CHECK(step_of(runs.path("run")) == 6);
    CHECK_THAT(ended.output, Contains(gone));
  }
}

TEST_CASE("lists of losses that can't be read are refused, and what does not go with --elastic") {
  const Runs runs;
  runs.check_refused({"--lose", "1@0"}, "--lose 1@0: expected RANK@UPDATE");
  runs.check_refused({"--lose", "1@5-3"}, "expected RANK@UPDATE");
  runs.check_refused({"--lose", "0@3,"}, "expected RANK@UPDATE");
  runs.check_refused({"--lose", "1@3"}, "--lose: there is no rank 1; this layout has 1");
  runs.check_refused({"--lose", "0@2,1@3,0@5"},
                     "--lose: in update 5 rank 0 is still lost since update 2");
  runs.check_refused({"--lose", "0@5,0@2-5"},
                     "rank 0 is still lost since update 2; it is back after update 5");
  runs.check_refused({"--lose", "0@7"}, "--lose: update 7 does not come; the run has 6 --steps");
  runs.check_refused({"--elastic", "--stop-after", "2"}, "leave out --stop-after");
  runs.train("earlier");
  check_ended(run(runs.words("earlier", {"--elastic"})), 2,
              "holds another run: continue that with --resume");
  check_ended(run(runs.words("alone", {"--elastic", "--lose", "0@4"})), 1,
              "no rank is left; nothing was saved");
}
