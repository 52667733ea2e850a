// A checkpoint's manifest.json, whose data files are there, and what reads the description of the
// run in it.
#include <nlohmann/json.hpp>

#include "nn/text/vocabulary.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/saving.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

std::vector<std::string> seeds() {
  write_checkpoint(folder() / "run/checkpoint");
  const std::string manifest = read(folder() / "run/checkpoint/manifest.json");
  return {manifest, unsealed(manifest)};
}

void read_input(const std::string& input) {
  using namespace nn;
  using namespace parallel;
  static const Training training(gpt(small_gpt), 1);
  static const Plan plan = make_plan("data", {.width = 2, .codec = parse_codec("topk:0.5")});
  write("run/checkpoint/manifest.json", input);
  const Checkpoint checkpoint(folder() / "run/checkpoint");
  const nlohmann::json& run = checkpoint.run();
  if (run.contains("vocabulary")) load_vocabulary(run["vocabulary"]);
  lost_residual(checkpoint, plan, training);
  of_run(checkpoint, "rewound", 0);
  if (run.contains("model"))
    checkpoint.check_model(whole_parameters(gpt(gpt_config(run["model"]))));
}

}  // namespace plangrad::fuzz
