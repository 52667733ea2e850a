// RunObserver: what a run does beside making updates and saving them: it logs, validates, chooses
// bits, prunes, looks for silent errors, reports. Each is an observer, in one list; the session
// knows none of them.
// Not here: plans, orders and saves (session_lead.cpp). Chapter 05.
#pragma once

#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/run_result.h"
#include "parallel/transports/pack.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

class Lead;         // rank 0 (session_rank.h)
class SessionRank;  // every rank

struct Nothing {};  // a question or an answer without content

/// An update that all ranks have made. The loss is in nats.
struct HeardUpdate {
  int version = 0;
  double loss = 0, gradient_norm = 0, learning_rate = 0, seconds = 0;
  std::int64_t bytes_sent = 0;
};

/// What ranks have found out since the last call.
struct Heard {
  const std::vector<RunResult>& results;  ///< the results of each rank
  std::vector<HeardUpdate> updates;       ///< updates that all ranks have made by now
};

/// Updates that ranks recorded, between which nothing changed what they keep in memory.
struct RecordedUpdates {
  std::string since;  ///< what changed it before them: "pruning after update 6"; empty: the start
  Plan plan;          ///< the plan as it ran; if messages decided the order, with that order
  Timeline timeline;
  std::vector<MemorySample> memory;
  /// The plan in which the run continues; null: every plan drains.
  std::shared_ptr<const VerifiedPlan> endless = nullptr;
};

/// A plan that has ended on all ranks.
struct PlanEnd {
  int before = 0, done = 0;  ///< updates of the run
  const Plan& plan;          ///< the one that ran: an endless one, or one of done - before updates
  const std::vector<RunResult>& results;  ///< the results of each rank since the last Heard
  const char* drained = nullptr;  ///< why its pipeline drained; null: it drains at each update
  const RecordedUpdates* recorded = nullptr;  ///< null: it was not recorded
  bool saves = false;  ///< a save is due, and follows once all observers have heard
};

/// Something that the session or an observer tells all observers.
struct Told {
  enum Kind { line, warning, metric, event } kind;
  int step = 0;
  std::string what;      ///< event: its kind; metric: empty; else the line
  nlohmann::json value;  ///< metric: an object, the keys of its line; event: its text
};

/// The updates after which a plan has to end, and what is done there; null: nothing for the user.
struct Border {
  static constexpr int never = std::numeric_limits<int>::max();
  int updates = never;
  const char* why = nullptr;
};

/// What a rank adds to a save.
struct Saving {
  SessionRank& rank;
  const Plan& plan;                 ///< the shortest from now on
  const nn::WriteFile& write_file;  ///< takes a file of this rank
  nlohmann::json& run;              ///< what is added to the checkpoint's description of the run
  std::string& on_disk_before;      ///< a file that goes to disk before the save counts
  std::string& failure;             ///< why the save can't count; it then takes its files away
};

/// Each rank has its own objects, in lists with the same names in the same order; calls come in
/// that order. A constructor writes nothing and sends nothing. What a call throws ends the run.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// One word, by which ranks find it in their lists: "validation".
  virtual const char* name() const = 0;
  /// Whether it makes the choices that such a codec leaves to the run.
  virtual bool serves(const CodecKind&) const { return false; }

  // ---- on every rank ----

  /// Takes up what save() left. The engine reads its state next, and may be given another form.
  virtual void resume(const nn::Checkpoint&, SessionRank&) {}
  /// Before and after this rank runs a plan of updates.
  virtual void trains(SessionRank&, bool /*begins*/) {}
  /// This rank's part of what rank 0's object of this name asks all ranks to do (ask_all).
  /// Between plans; all ranks are in it together, so they may send each other messages.
  virtual std::string answer(SessionRank&, std::string /*question*/) { return {}; }
  /// Adds what resume() needs beside the state of stages. All ranks together, between plans.
  virtual void save(Saving&) {}
  /// Why resume() would need more than the state of stages after so many updates, in the midst of a
  /// plan; empty: it would not. Asked when a session has failed.
  virtual std::string lacks(int /*updates*/) const { return {}; }
  /// In the handler of what this rank threw: `throw;` throws it again. Must not throw, nor send.
  virtual void failed(SessionRank&) noexcept {}

  // ---- on rank 0 ----

  /// Before the first plan. The run's folder is there and belongs to it. May ask all ranks.
  virtual void ready(Lead&) {}
  /// The first border after `done` updates; may be asked at any time, also before a run.
  virtual Border next_border(int /*done*/) const { return {}; }
  /// In the midst of an endless plan and at the end of any. Ranks are in their rows: must not ask.
  virtual void heard(Lead&, const Heard&) {}
  /// Between plans. May ask all ranks, also to change their state; a save follows all observers.
  virtual void plan_ended(Lead&, const PlanEnd&) {}
  /// At any time, also in heard(); must not ask.
  virtual void told(Lead&, const Told&) {}
  /// A save is committed; maybe in the midst of a later plan: must not ask.
  /// throws: Error, which leaves the save as it is: a warning; the run's error after its last save
  virtual void saved(Lead&, int /*step*/) {}
  /// The last save is over (none if the session made no update). May ask all ranks.
  virtual void ended(Lead&) {}
};

using Observers = std::vector<std::unique_ptr<RunObserver>>;

/// Has the objects of this name answer on all ranks; returns their answers by rank.
/// throws: Error if a rank has no such observer, as it was started with other flags
std::vector<std::string> ask_all(Lead& lead, const RunObserver& asker, std::string question);

/// An observer whose object on rank 0 asks, and whose objects on all ranks answer.
template <class Question, class Answer>
class AskingObserver : public RunObserver {
 public:
  std::string answer(SessionRank& rank, std::string question) final {
    Answer own = carry_out(rank, unpack<Question>(std::move(question)));
    return pack(own);
  }

 protected:
  virtual Answer carry_out(SessionRank& rank, const Question& question) = 0;
  std::vector<Answer> ask(Lead& lead, Question question = {}) {
    std::vector<Answer> answers;
    for (std::string& bytes : ask_all(lead, *this, pack(question)))
      answers.push_back(unpack<Answer>(std::move(bytes)));
    return answers;
  }
};

/// The last multiple of `every` lies after `before`, and not after `done`; never if `every` is 0.
inline bool is_due(int every, int before, int done) {
  return every > 0 && done / every > before / every;
}
inline int next_multiple(int every, int done) {
  const int rest = every > 0 ? every - done % every : Border::never;
  return rest < Border::never - done ? done + rest : Border::never;
}

}  // namespace plangrad::parallel
