// Shows progress where there is news, and leaves the writing of metrics to MetricFiles. Chapter 02.
#include "parallel/observers/run_log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "parallel/drawing/figure.h"
#include "parallel/observers/recording.h"
#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

using nlohmann::json;
namespace fs = std::filesystem;

/// Formats seconds as "1:05" or "2:00:00".
static std::string clock_time(double seconds) {
  auto whole = static_cast<std::int64_t>(std::min(seconds, 1e9));
  std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

/// Leaves out the last parts of a line where the terminal ends: one that wraps can't be rewritten.
static std::string fitted(std::string line) {
  winsize window = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col <= 1) return line;
  while (line.size() >= window.ws_col) line.resize(std::min(line.rfind("  "), line.size() - 1));
  return line;
}

RunLog::RunLog(LogSettings settings)
    : settings_(std::move(settings)), terminal_(isatty(STDOUT_FILENO)) {}

RunLog::~RunLog() { end_progress(); }

void RunLog::ready(Lead& lead) {
  open(lead.settings(), lead.first());
  say(settings_.about);
}

void RunLog::open(const SessionScope& scope, int first) {
  scope_ = scope;
  first_ = first;
  MetricLines earlier;
  std::string problem;
  const bool holds_run = !nn::manifests_of(scope.out / "checkpoint").empty();
  if (first > 0)
    earlier =
        earlier_metrics(scope.resume, first, scope.resumed_run().value("metrics", json()), problem);
  if (!problem.empty()) warn(problem);
  files_ = std::make_unique<MetricFiles>(scope.out, settings_.unit, earlier, hears_);
  files_->events().describe(command_line(), settings_.flags);
  if ((files_->beside_earlier() || holds_run) && scope.resume != scope.out)
    warn(text(scope.out.string(), " holds an earlier run, which stays until this one saves"));
}

void RunLog::write(const json& line) {
  files_->write(line);
  hears_(line);
  const std::string problem = files_->problem();
  if (!problem.empty() && !lacks_lines_)
    warn(problem + "; the run goes on, and writes what is missing when there is room");
  lacks_lines_ = !problem.empty();
}

void RunLog::heard(Lead&, const Heard& heard) {
  for (const RunResult& result : heard.results) busy_ += result.compute + result.update;
  for (const HeardUpdate& update : heard.updates) step(update);
  ranks_ = static_cast<double>(heard.results.size());
  bubble_ = 1 - busy_ / (ranks_ * std::max(seconds_, 1e-9));
  fullest_ = std::ranges::max_element(heard.results, {}, &RunResult::peak)->peak;
}

void RunLog::step(const HeardUpdate& update) {
  seconds_ += update.seconds;
  units_ += settings_.units_per_step;
  last_loss_ = update.loss;
  write(line_of(update, settings_.units_per_step, settings_.unit));
  if (due(update.version)) show(update.version);
}

bool RunLog::due(int step) const {
  using std::chrono::milliseconds;
  const auto waited = std::chrono::steady_clock::now() - shown_;
  if (step == first_ + 1 || step == scope_.steps) return true;
  if (terminal_) return waited > milliseconds(100) || !validation_.is_null();
  return step % std::max(1, scope_.steps / 20) == 0 || waited > milliseconds(30'000);
}

std::string RunLog::progress(int step) {
  const double left = seconds_ / (step - first_) * (scope_.steps - step);
  std::string line = fmt::format("step {:>6}/{}  {} left  loss {:.4f}", step, scope_.steps,
                                 clock_time(left), last_loss_);
  if (validation_.contains("validation_loss"))
    line += fmt::format("  validation {:.4f}", validation_["validation_loss"].get<double>());
  if (validation_.contains("validation_accuracy"))
    line += fmt::format(" ({:.2f}% right)", 100 * validation_["validation_accuracy"].get<double>());
  line += fmt::format("  {:.0f} {}/s", units_per_second(), settings_.unit);
  if (ranks_ > 1) line += fmt::format("  bubble {:.0f}%", 100 * std::max(0.0, bubble_));
  if (fullest_ > 0) line += "  fullest rank " + bytes_text(static_cast<double>(fullest_));
  return line;
}

void RunLog::show(int step) {
  shown_ = std::chrono::steady_clock::now();
  if (settings_.quiet) return;
  line_open_ = terminal_ && validation_.is_null();  // a line with a validation stays
  const std::string line = progress(step), end = line_open_ ? "" : "\n";
  std::cout << (terminal_ ? "\r\033[K" + fitted(line) : line) + end << std::flush;
  validation_ = nullptr;
}

void RunLog::end_progress() {
  if (line_open_) std::cout << std::endl;
  line_open_ = false;
}

void RunLog::told(Lead&, const Told& told) {
  if (told.kind == Told::line) say(told.what);
  if (told.kind == Told::warning) warn(told.what);
  if (told.kind != Told::metric) return;
  if (told.value.contains("validation_loss")) validation_ = told.value;
  json line = told.value;
  line["step"] = told.step;
  write(line);
}

void RunLog::say(const std::string& line) {
  if (settings_.quiet) return;
  end_progress();
  std::cout << settings_.shown(line) << std::endl;
}

void RunLog::warn(const std::string& line) {
  end_progress();
  std::cerr << "warning: " + settings_.shown(line) + '\n';
}

/// Writes the metrics anew if others have moved or changed them, which holds no save back.
void RunLog::replace_changed() try {
  MetricLines left;
  const std::string changed = files_->move_changed_aside(left);
  if (changed.empty()) return;
  warn(changed);
  auto anew = std::make_unique<MetricFiles>(scope_.out, settings_.unit, left);
  anew->events().describe(command_line(), settings_.flags);
  if (files_->beside_earlier()) anew->knows_as(*files_);  // what others change stays aside
  files_ = std::move(anew);
} catch (const std::exception& error) {
  warn(error.what());
}

/// The checkpoint names what metrics.jsonl holds now.
void RunLog::save(Saving& saving) try {
  if (!files_) return;
  replace_changed();
  saving.run["metrics"] = files_->written();
  saving.on_disk_before = files_->path();
} catch (const Error& error) {
  saving.failure = error.what();
}

/// Replaces the earlier run's metrics by this run's, and removes its summary.
void RunLog::saved(Lead&, int) {
  if (!files_->beside_earlier()) return;
  const std::string changed = files_->replace_earlier();
  if (!changed.empty()) warn("others have changed the run's files" + changed);
  std::error_code ignored;
  fs::remove(scope_.out / "summary.json", ignored);
}

void RunLog::ended(Lead& lead) {
  if (lead.state() == RunState::finished) return;
  if (settings_.is_segment && lead.state() == RunState::stopped)
    return say(text("a segment ends after ", lead.steps(), " of ", counted(scope_.steps, "step")));
  say(text(name_of(lead.state()), " after ", lead.steps(), " of ", counted(scope_.steps, "step"),
           "; continue with --resume ", scope_.out.string()));
}

}  // namespace plangrad::parallel
