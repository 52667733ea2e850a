#include "tests/examples/plan_program.h"

namespace plangrad::tests {

Words small_plan(const std::string& command, const std::string& schedule) {
  return {"plan", command,          "--schedule", schedule,  "--stages",
          "4",    "--microbatches", "4",          "--steps", "3"};
}

std::string output_of(const Words& words) {
  CAPTURE(words);
  Finished result = succeeded(run(words));
  CHECK((result.errors.empty() || result.errors.starts_with("note: ")));
  return result.output;
}

nlohmann::json json_of(const Words& words) {
  return nlohmann::json::parse(output_of(words + Words{"--json"}));
}

void check_refused(const Words& words, const std::string& part, long lines) {
  CAPTURE(words);
  check_failed(run(words), part, lines, lines > 1 ? 1 : 2);  // a broken rule is shown, too
}

const std::string hanging_plan =
    "stages 2 per_step 2 steps 1 # as a user would write it\n\n"
    "0F0v0 0a0>1 0g0<1 0B0v0 0F1v0 0a1>1 0g1<1 0B1v0 0Sv1\n"
    "0a0<0 1F0v0 0a1<0 1F1v0 1B0v0 0g0>0 1B1v0 0g1>0 1Sv1\n";

std::string replaced(std::string text, const std::string& old, const std::string& with) {
  return text.replace(text.find(old), old.size(), with);
}

}  // namespace plangrad::tests
