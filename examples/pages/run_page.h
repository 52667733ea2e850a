// RunPage: the data that a run leaves, and pages that draw them: report.html, which can be read
// while it trains, and at its end plan.html, the player with what it recorded.
// Not here: the data (parallel/observers/run_record.h). Chapters 03 and 06.
#pragma once

#include "examples/pages/metrics_table.h"
#include "parallel/observers/run_record.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

class RunPage : public RunRecord {
 public:
  /// title: of report.html, behind the name of the run's folder
  RunPage(RunLog& log, RecordSettings settings, std::string title);

 private:
  void draw(Lead& lead, const nlohmann::json& summary, bool last) override;
  nlohmann::json page(Lead& lead, nlohmann::json summary, const std::string& title);

  const std::string title_;
  MetricsTable table_;
  std::map<int, nlohmann::json> windows_;  // by the first update of a recording
};

/// What a page says of pretended devices and links: names and values.
///   summary: "pretended" of summary.json
std::vector<std::pair<std::string, std::string>> pretended_facts(const nlohmann::json& summary);

}  // namespace plangrad::examples
