// Orders are small JSON objects: {"do": "train", "steps": 40}. Every rank makes the plan from it
// for itself, and runs its row.
// Chapter 05.
#include "parallel/session/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "parallel/codecs/not_finite.h"
#include "parallel/collectives/hosts.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/agreement.h"
#include "parallel/session/codec_state.h"
#include "parallel/transports/at_work.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

using nlohmann::json;

namespace {

/// With the hosts that hierarchical sums go by. Ranks have to agree that they do.
Engine::Settings engine_settings(const SessionSettings& settings, Transport& transport) {
  check_agreement(transport, settings.run, settings.engine.timeout);
  Engine::Settings result = settings.engine;
  if (result.reduction == AllReduce::hierarchical && result.hosts.empty())
    result.hosts = hosts_of_ranks(transport, result.timeout);
  return result;
}

}  // namespace

Session::Session(const Training& training, Transport& transport, DevicePtr device, RunData& data,
                 const SessionSettings& settings)
    : engine_(training, transport, std::move(device), engine_settings(settings, transport)),
      pruner_(settings.pruner ? settings.pruner() : nullptr),
      data_(data),
      settings_(settings) {
  AtWork preparing(transport, Work::preparing);
  std::optional<Checkpoint> checkpoint;
  if (!settings.resume.empty()) {
    checkpoint.emplace(settings.resume / "checkpoint");
    first_ = steps_ = static_cast<int>(checkpoint->step());
  }
  int some = settings.steps_of_plan > 0 ? settings.steps_of_plan : 1;
  const VerifiedPlan plan = verify(settings.plan(first_, some));
  if (settings.engine.reduction == AllReduce::hierarchical)
    check_hosts(plan.plan(), engine_.settings().hosts);
  if (pruner_ && checkpoint) pruner_->resume(*checkpoint, engine_, plan.plan());
  engine_.prepare(plan.plan());
  if (plan.plan().codec.kind().chooses_bits) bits_every_ = plan.plan().codec.period;
  if (!checkpoint) return;
  read_state(*checkpoint, engine_);
  if (bits_every_ > 0) bits_ = checkpoint->run().value("bits", Bits());
  engine_.set_bits(bits_);
  read_codec_state(*checkpoint, engine_, plan.plan());
  lost_ = lost_residual(*checkpoint, plan.plan(), engine_.training());
  if (pruner_ && !pruner_->summary().is_null()) begin_pruned();
}

bool Session::train() {
  if (engine_.transport().rank() > 0) {
    follow();
    return true;
  }
  bool complete = lead();
  order({{"do", "end"}});
  return complete;
}

std::vector<json> Session::order(const json& what) {
  broadcast_bytes(engine_.transport(), what.dump(), settings_.engine.timeout);
  std::string answer = carry_out(what).dump();
  std::vector<json> answers;
  for (const std::string& text :
       gather_bytes(engine_.transport(), answer, settings_.engine.timeout))
    answers.push_back(json::parse(text));
  return answers;
}

void Session::follow() {
  for (json what = json::object(); what.value("do", "") != "end";) {
    what = json::parse(broadcast_bytes(engine_.transport(), "", settings_.engine.timeout));
    gather_bytes(engine_.transport(), carry_out(what).dump(), settings_.engine.timeout);
  }
}

json Session::carry_out(const json& what) {
  const std::string verb = what.at("do");
  if (verb == "train") return run_steps(what.at("steps"), what.at("recorded"));
  if (verb == "validate") {
    bool all = what.at("all");
    Plan like = settings_.plan(steps_, std::max(1, settings_.steps_of_plan));
    int count = static_cast<int>(data_.validation_weights(all).size());
    RunResult result =
        engine_.run(verify(make_evaluation(like, steps_, count)), data_.validation(all));
    for (const auto& [micro, loss] : result.losses)
      PG_CHECK(std::isfinite(loss), "step ", steps_, ": the validation loss is ", loss, "; ",
               when_not_finite);
    return to_json(result, false);
  }
  auto like = [&] {
    AtWork preparing(engine_.transport(), Work::preparing);
    return settings_.plan(steps_, std::max(1, settings_.steps_of_plan));
  };
  if (verb == "prune") return prune(like(), what.at("bits").get<Bits>());
  if (verb == "save") {
    json answer{{"files", json::array()}, {"codec", codec_numbers(engine_)}};
    const Plan plan = like();
    for (auto write : {write_state, write_codec_state})
      for (const CheckpointFile& file : write(settings_.out / "checkpoint", engine_, plan, steps_))
        answer["files"].push_back({file.name, file.bytes});
    if (pruner_)
      for (const CheckpointFile& file :
           pruner_->write(settings_.out / "checkpoint", engine_, plan, steps_))
        answer["files"].push_back({file.name, file.bytes});
    return answer;
  }
  if (verb == "set bits") engine_.set_bits(what.at("bits").get<Bits>());
  if (verb == "measure memory") return measure_memory();
  return {};
}

json Session::prune(const Plan& like, const Bits& bits) {
  const json found = pruner_->look(engine_, like, steps_);
  if (!found.contains("pruned")) return found;
  engine_.set_bits(bits);  // of codecs that began anew
  begin_pruned();
  return found;
}

/// Peaks are measured anew, beside those so far.
void Session::begin_pruned() {
  peaks_before_ = measure_memory()["run"];
  engine_.device()->meter().reset_peaks();
}

/// Peaks of the run; and since it was pruned, if it was.
json Session::measure_memory() const {
  const json now = memory_summary(engine_.device()->meter());
  if (peaks_before_.is_null()) return {{"run", now}};
  json run = peaks_before_;
  for (auto& [category, peak] : run.items()) peak = std::max(peak, now.at(category));
  return {{"run", run}, {"pruned", now}};
}

json Session::run_steps(int steps, bool recorded) {
  const VerifiedPlan plan = verify(settings_.plan(steps_, steps));
  MemoryMeter& meter = engine_.device()->meter();
  std::vector<MemoryMeter::Event> memory;
  for (int i = 0; i < category_count; ++i)
    memory.push_back({0, static_cast<Category>(i), meter.live(static_cast<Category>(i))});
  const auto start = std::chrono::steady_clock::now();
  if (recorded) meter.start_timeline();
  RunResult result = engine_.run(plan, data_.training());
  steps_ += steps;
  json answer = to_json(result, recorded);
  if (!recorded) return answer;
  const double waited = std::chrono::duration<double>(result.begun - start).count();
  for (MemoryMeter::Event change : meter.stop_timeline()) {
    change.seconds = std::max(change.seconds - waited, 0.0);  // on the clock of the records
    memory.push_back(change);
  }
  answer["memory"] = to_json(memory);
  return answer;
}

}  // namespace paragrad::parallel
