// What earlier runs left: metrics.jsonl and summary.json, read by `report` and by resumed runs.
#include <nlohmann/json.hpp>

#include "examples/pages/compare_runs.h"
#include "examples/pages/page_text.h"
#include "nn/checkpoint/checkpoint.h"
#include "parallel/observers/run_log.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace examples;
using namespace parallel;

std::vector<std::string> seeds() {
  const std::filesystem::path run = folder() / "run/checkpoint";
  nn::commit_checkpoint(run, 3, nlohmann::json::object(),
                        {nn::write_checkpoint_file(run, "model", 3, {}, {})});
  const std::string lines =
      R"({"step":1,"loss":2.5,"seconds":0.1,"learning_rate":0.1,"gradient_norm":1,"bytes_sent":8})"
      "\n"
      R"({"step":2,"loss":null,"seconds":0.2,"tokens_per_second":10})"
      "\n"
      R"({"step":2,"validation_loss":2.25,"validation_accuracy":0.5})"
      "\n"
      R"({"step":2,"bits":{"wte.weight":4}})"
      "\n"
      R"({"step":2,"drained":"end"})"
      "\n"
      R"({"step":2,"pruning":{"pruned":0.5,"kept":3,"elements":6}})"
      "\n";
  const std::string summary = R"({"seconds":0.3,"steps":2,"ranks":1,"version":"1",)"
                              R"("machine":{"host":"a","cores":2},"events":[{"step":1,)"
                              R"("what":"checkpoint","text":"saved"}],"config":{"flags":)"
                              R"({"--data":"x","--batch":4},"model":{"layers":2}}})";
  return {joined({lines, summary})};
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 2);
  write("run/metrics.jsonl", files[0]);
  write("run/summary.json", files[1]);
  // A run that resumes copies the lines. It has another folder, or the first would change.
  static SessionScope scope;
  if (!scope.resumed) scope.resume_from(folder() / "run");
  scope.out = folder() / "resumed";
  std::filesystem::remove_all(scope.out);  // some file systems are slow to cut files short
  std::filesystem::create_directories(scope.out);
  RunLog log({.quiet = true});
  log.open(scope, 2);
  log.write({{"step", 2}, {"validation_loss", 1.5}});
  must(std::filesystem::exists(scope.out / "metrics.jsonl"), "a run wrote no metrics");
  write("other/metrics.jsonl", R"({"step":1,"loss":2})");
  write("other/summary.json", R"({"seconds":1,"config":{}})");
  json_in_page(compare_runs({folder() / "run", folder() / "other"}).dump());
}

}  // namespace plangrad::fuzz
