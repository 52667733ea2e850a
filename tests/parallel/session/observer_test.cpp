// Observers of a run: when each call comes, who answers, and what must not be asked.
// Not here: what the observers of programs do (tests/parallel/observers/).
#include "parallel/session/observer.h"

#include "parallel/session/session_rank.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;

namespace {

/// Notes its calls on rank 0. Its question is a number, and a rank answers so many times its own.
class Noting : public AskingObserver<int, int> {
 public:
  explicit Noting(std::vector<std::string>& calls, bool asks_early = false)
      : calls_(calls), asks_early_(asks_early) {}
  const char* name() const override { return "noting"; }
  Border next_border(int done) const override { return {next_multiple(3, done), name()}; }
  void ready(Lead& lead) override {
    PG_CHECK(ask(lead, 7) == (std::vector<int>{0, 7}),
             "the answers are not those of ranks 0 and 1");
    lead.say("hello");
    calls_.push_back("ready");
  }
  void heard(Lead& lead, const Heard& heard) override {
    if (asks_early_) ask(lead, 1);
    for (const HeardUpdate& update : heard.updates)
      calls_.push_back(text("heard ", update.version));
  }
  void plan_ended(Lead&, const PlanEnd& plan) override {
    calls_.push_back(text("plan ", plan.before, '-', plan.done, plan.saves ? " saves" : ""));
  }
  void told(Lead&, const Told& told) override {
    if (told.kind == Told::line || told.kind == Told::event) calls_.push_back("told " + told.what);
  }
  void saved(Lead&, int step) override { calls_.push_back(text("saved ", step)); }
  void ended(Lead& lead) override { calls_.push_back(text("ended ", name_of(lead.state()))); }

 private:
  int carry_out(SessionRank& rank, const int& question) override {
    return question * rank.engine().transport().rank();
  }

  std::vector<std::string>& calls_;
  const bool asks_early_;
};

std::vector<std::string> calls_of_run(const std::function<bool(int rank)>& has_one,
                                      bool asks_early = false) {
  const RunFolder folder;
  std::vector<std::string> calls;
  run_sessions(small_training(1), folder, 2, [&](int rank, SessionSettings& settings) {
    settings.steps = 4;
    if (has_one(rank)) settings.observers = only<Noting>(calls, asks_early);
  });
  return calls;
}

}  // namespace

TEST_CASE("observers: calls follow the run, and plans end at an observer's borders", "[session]") {
  CHECK(calls_of_run([](int) { return true; }) ==
        std::vector<std::string>{"told hello", "ready", "heard 1", "plan 0-1", "heard 2", "heard 3",
                                 "plan 1-3", "heard 4", "plan 3-4", "told checkpoint", "saved 4",
                                 "ended finished"});
}

TEST_CASE("observers: a rank that was started without one says so", "[session]") {
  CHECK_THROWS_WITH(calls_of_run([](int rank) { return rank == 0; }),
                    Contains("rank 1: this rank has no observer \"noting\"; start all ranks with "
                             "the same flags"));
}

TEST_CASE("observers: a codec that leaves choices to its run needs one that makes them",
          "[session]") {
  const RunFolder folder;
  const Layout layout{.width = 2, .codec = parse_codec("adaptive")};
  auto change = [&](int, SessionSettings& settings) {
    settings.plans = std::make_shared<Plans>("data", layout);
  };
  CHECK_THROWS_WITH(run_sessions(small_training(1), folder, 2, change),
                    Contains("codec adaptive needs an observer that serves it"));
}

TEST_CASE("observers: ranks can't be asked while they run their rows", "[session]") {
  CHECK_THROWS_WITH(calls_of_run([](int) { return true; }, true),
                    Contains("observer \"noting\" asks ranks that are in their rows"));
}

namespace {

/// Keeps a number over a resume, and notes which calls each rank's object gets.
class Counting : public RunObserver {
 public:
  Counting(std::vector<std::string>& calls, int throws_after)
      : calls_(calls), throws_after_(throws_after) {}
  const char* name() const override { return "counting"; }
  void resume(const Checkpoint& checkpoint, SessionRank&) override {
    calls_.push_back(text("resume ", checkpoint.run().at("counted").dump()));
  }
  void trains(SessionRank&, bool begins) override { calls_.push_back(begins ? "begin" : "end"); }
  void save(Saving& saving) override { saving.run["counted"] = 5; }
  void failed(SessionRank& rank) noexcept override {
    try {
      throw;
    } catch (const std::exception& error) {
      const bool own = std::string(error.what()).find("enough") != std::string::npos;
      calls_.push_back(text("failed ", rank.engine().transport().rank(), own ? " enough" : ""));
    }
  }
  void heard(Lead&, const Heard& heard) override {
    for (const HeardUpdate& update : heard.updates)
      PG_CHECK(update.version != throws_after_, "enough");
  }
  void ended(Lead&) override { calls_.push_back("ended"); }

 private:
  std::vector<std::string>& calls_;
  const int throws_after_;
};

/// What each rank's observer was called; an observer of rank 0 throws at an update, 0: at none.
std::vector<std::vector<std::string>> calls_by_rank(const RunFolder& folder, int throws_after,
                                                    const std::string& resume = "") {
  std::vector<std::vector<std::string>> calls(2);
  auto run = [&] {
    run_sessions(small_training(1), folder, 2, [&](int rank, SessionSettings& settings) {
      settings.resume_from(resume);
      settings.run = nlohmann::json::object();
      settings.steps = resume.empty() ? 2 : 3;
      settings.observers = only<Counting>(calls[rank], throws_after);
    });
  };
  if (throws_after == 0)
    run();
  else
    CHECK_THROWS_WITH(run(), Contains("enough"));
  return calls;
}

}  // namespace

TEST_CASE("observers: what one adds to a save is there when the run is resumed", "[session]") {
  const RunFolder begun, resumed;
  const auto before = calls_by_rank(begun, 0), after = calls_by_rank(resumed, 0, begun.path);
  CHECK(before[0].back() == "ended");
  CHECK(before[1].back() == "end");
  CHECK(before[0].front() == "begin");
  CHECK(after[0].front() == "resume 5");
  CHECK(after[1] == std::vector<std::string>{"resume 5", "begin", "end"});
}

TEST_CASE("observers: all ranks hear of a failure, and none that the run ended", "[session]") {
  const RunFolder folder;
  const auto calls = calls_by_rank(folder, 1);
  CHECK(calls[0].back() == "failed 0 enough");
  CHECK(calls[1].back().starts_with("failed 1"));
  for (const auto& rank : calls) CHECK(std::ranges::count(rank, "ended") == 0);
}

namespace {

/// Notes the saves, and takes longer after the first update than saves are apart.
struct Resting : RunObserver {
  Resting(std::set<int>& announced, std::set<int>& saves) : announced(announced), saves(saves) {}
  const char* name() const override { return "resting"; }
  Border next_border(int done) const override { return {done + 1}; }
  void plan_ended(Lead&, const PlanEnd& plan) override {
    if (plan.saves) announced.insert(plan.done);
    if (plan.done == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
  void saved(Lead&, int step) override { saves.insert(step); }

  std::set<int>& announced;
  std::set<int>& saves;
};

}  // namespace

TEST_CASE("observers: they hear of a save before it, also if it falls due by time", "[session]") {
  const RunFolder folder;
  std::set<int> announced, saves;
  run_sessions(small_training(1), folder, 2, [&](int, SessionSettings& settings) {
    settings.steps = 3;
    settings.save_minutes = 0.5 / 60;
    settings.observers = only<Resting>(announced, saves);
  });
  announced.insert(3);  // as each run's last update is saved
  CHECK(saves == announced);
}

namespace {

/// Makes a weight infinite after the last update.
struct Spoiling : RunObserver {
  const char* name() const override { return "spoiling"; }
  void trains(SessionRank& rank, bool begins) override {
    if (begins || rank.engine().transport().rank() != 1) return;
    for (auto& [stage, store] : rank.engine().stores()) {
      const Tensor weights = store.versions().at(store.newest());
      weights.backend().fill(INFINITY, weights.window(0, {1}));
    }
  }
};

}  // namespace

TEST_CASE("weights that are not finite are not saved", "[session]") {
  const RunFolder folder;
  auto change = [](int, SessionSettings& settings) {
    settings.steps = 1;
    settings.plans = std::make_shared<WatchedPlans>("1f1b");
    settings.observers = only<Spoiling>();
  };
  CHECK_THROWS_WITH(run_sessions(small_training(2), folder, 2, change),
                    Contains("some weights of stage 1 are not finite"));
  CHECK(manifests_of(folder / "checkpoint").empty());
}
