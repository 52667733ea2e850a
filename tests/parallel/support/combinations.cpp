// The lists, and what a combination's training, plans and batches are. See combinations.h.
#include "tests/parallel/support/combinations.h"

#include "parallel/plan/plan.h"
#include "tests/parallel/support/todays_schedules.h"
#include "tests/sparse/pruned_runs.h"

namespace plangrad::tests {
namespace {

const std::vector<std::string> codecs{"none", "quantize:4", "topk:0.1"};

Training training_for(const Combination& x) {
  Training training(gpt(coded_gpt(x.layout.tied)), x.layout.stages);
  training.clip = x.layout.clip ? 0.3 : 0;
  training.learning_rate = {0.02, 0.002, 1, 8};
  if (x.pruned) training.form = form_of<SamoForm>(first_masks(training, 0.8, false));
  return training;
}

std::vector<VerifiedPlan> plans_for(const Combination& x) {
  if (!x.endless) return plans_of(x.schedule, x.layout, 2);
  std::vector<VerifiedPlan> plans;
  plans.push_back(verify(*make_endless(x.schedule, x.layout)));
  return plans;
}

/// With replicas it is the codec of sums; else of what stages send each other.
void set_codec(Layout& layout, const std::string& codec, bool has_sums) {
  (has_sums ? layout.codec : layout.channel) = parse_codec(codec);
}

/// Adds the layout with each codec, pruned and not.
void add(std::vector<Combination>& all, Combination x, bool has_sums) {
  for (const std::string& codec : codecs)
    for (const bool pruned : {false, true}) {
      set_codec(x.layout, codec, has_sums);
      x.pruned = pruned;
      all.push_back(x);
    }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Combination& x) {
  out << x.schedule << " of " << x.layout.stages << " stages, width " << x.layout.width;
  for (const auto& [name, setting] : settings())
    if (is_cyclic(x.schedule) && setting == x.layout.setting) out << ", setting " << name;
  return out << (x.layout.recompute ? ", recompute" : "") << (x.layout.zero ? ", ZeRO 1" : "")
             << (x.layout.clip ? ", clip" : "") << (x.layout.tied ? ", tied" : "") << ", codecs "
             << print(x.layout.codec) << " and " << print(x.layout.channel)
             << (x.pruned ? ", SAMO" : "") << (x.endless ? ", endless" : "");
}

std::vector<Combination> combinations_of_today() {
  std::vector<Combination> all;
  for (const Today& today : todays_schedules())
    for (const int width : {1, 2})
      for (const bool recompute : {false, true})
        for (const int zero : {0, 1}) {
          Layout layout = today.layout;
          layout.width = width;
          layout.recompute = recompute;
          layout.zero = zero;
          layout.steps = 1;
          layout.clip = all.size() / 6 % 2;
          layout.tied = all.size() / 6 % 3 == 0;
          if (takes(today.schedule, layout)) add(all, {today.schedule, layout}, width == 2);
        }
  return all;
}

std::vector<Combination> endless_combinations() {
  std::vector<Combination> all;
  auto add_choices = [&](const std::string& schedule, Layout layout, bool has_sums) {
    for (const int choices : {0, 1, 2, 3, 4, 5, 6, 7}) {
      layout.recompute = choices & 1;
      layout.tied = choices & 2;
      layout.clip = choices & 4;
      if (takes(schedule, layout)) add(all, {schedule, layout, false, true}, has_sums);
    }
  };
  for (const char* schedule : {"2bw", "pipedream", "paci"})
    for (const int width : {1, 2})
      add_choices(schedule, {.stages = 2, .width = width, .microbatches = 2}, width == 2);
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (const auto& [name, setting] : settings())
      if (setting != Setting::one_device)  // it has no endless plan
        add_choices(schedule, {.stages = 2, .setting = setting}, setting != Setting::pipeline);
  return all;
}

CombinedRun::CombinedRun(const Combination& x)
    : training_(training_for(x)), plans_(plans_for(x)), batches_(coded_gpt(x.layout.tied)) {
  if (x.endless) course_.bodies = 3;
}

Outcome CombinedRun::serially(const DevicePtr& device) {
  const Plan& first = plans_[0].plan();
  return run_serially(training_,
                      first.is_endless() ? std::vector{verify(unrolled(first, 3))} : plans_,
                      batches_, AllReduce::scatter_reduce, {}, {}, device);
}

Outcome CombinedRun::by_threads(int capacity, const TakeSeat& take_seat) {
  if (course_.bodies > 1) return run_endless(training_, plans_[0], batches_, course_, capacity);
  return run_by_engine(training_, plans_, batches_, capacity, AllReduce::scatter_reduce, {}, {},
                       take_seat);
}

void CombinedRun::by_engine(Engine& engine) {
  for (const VerifiedPlan& plan : plans_) engine.run(plan, batches_, course_);
}

}  // namespace plangrad::tests
