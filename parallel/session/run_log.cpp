// Shows progress where there is news, and leaves the writing of metrics to MetricFiles.
// Chapter 02.
#include "parallel/session/run_log.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "parallel/drawing/figure.h"
#include "parallel/session/folder_claim.h"

namespace plangrad::parallel {

namespace {

namespace fs = std::filesystem;

constexpr const char* summary_name = "summary.json";

/// Formats seconds as "1:05" or "2:00:00".
std::string clock_time(double seconds) {
  auto whole = static_cast<std::int64_t>(std::min(seconds, 1e9));
  std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

/// Cuts a line where the terminal ends: a line that wraps can't be rewritten.
std::string fitted(std::string line) {
  winsize window = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
    line.resize(std::min<std::size_t>(line.size(), window.ws_col - 1));
  return line;
}

}  // namespace

nlohmann::json line_of(std::int64_t number, const StepResult& result, const std::string& unit) {
  return {{"step", number},
          {"loss", result.loss},
          {"learning_rate", result.learning_rate},
          {"gradient_norm", result.gradient_norm},
          {"seconds", result.seconds},
          {unit + "_per_second", static_cast<double>(result.units) / result.seconds},
          {"bytes_sent", result.bytes_sent}};
}

RunLog::RunLog(const SessionSettings& settings, int first)
    : settings_(settings), first_(first), terminal_(isatty(STDOUT_FILENO)) {
  std::vector<nlohmann::json> earlier;
  std::string problem;
  make_writable(settings.out / "checkpoint");
  const bool holds_run = !nn::manifests_of(settings.out / "checkpoint").empty();
  if (first > 0)
    earlier = earlier_metrics(settings.resume, first,
                              settings.resumed().run().value("metrics", nlohmann::json()),
                              settings.resume == settings.out, problem);
  if (!problem.empty()) warn(problem);
  files_.emplace(settings.out, settings.unit, earlier);
  for (const nlohmann::json& line : earlier) table_.add(line);
  if ((files_->beside_earlier() || holds_run) && settings.resume != settings.out)
    warn(text(settings.out.string(), " holds an earlier run, which stays until this one saves"));
}

RunLog::~RunLog() { end_progress(); }

void RunLog::write(const nlohmann::json& line) {
  files_->write(line);
  table_.add(line);
  const std::string problem = files_->problem();
  if (!problem.empty() && !lacks_lines_)
    warn(problem + "; the run goes on, and writes what is missing when there is room");
  lacks_lines_ = !problem.empty();
}

void RunLog::step(std::int64_t number, const StepResult& result) {
  seconds_ += result.seconds;
  units_ += result.units;
  last_loss_ = result.loss;
  write(line_of(number, result, settings_.unit));
  if (due(number)) show(number);
}

bool RunLog::due(std::int64_t number) const {
  using std::chrono::milliseconds;
  const auto waited = std::chrono::steady_clock::now() - shown_;
  if (number == first_ + 1 || number == settings_.steps) return true;
  if (terminal_) return waited > milliseconds(100);
  return number % std::max(1, settings_.steps / 20) == 0 || waited > milliseconds(30'000);
}

std::string RunLog::progress(std::int64_t number) {
  const double average = seconds_ / static_cast<double>(number - first_);
  std::string line = fmt::format("step {:>6}/{}  loss {:.4f}", number, settings_.steps, last_loss_);
  if (validation_) line += fmt::format("  validation {:.4f}", validation_->loss);
  if (validation_ && validation_->accuracy)
    line += fmt::format(" ({:.2f}% right)", 100 * *validation_->accuracy);
  line += fmt::format("  {:.0f} {}/s", units_per_second(), settings_.unit);
  if (bubble_) line += fmt::format("  bubble {:.0f}%", 100 * std::max(0.0, *bubble_));
  if (fullest_ > 0) line += "  fullest rank " + bytes_text(static_cast<double>(fullest_));
  return line + fmt::format("  {} left",
                            clock_time(average * static_cast<double>(settings_.steps - number)));
}

void RunLog::show(std::int64_t number) {
  shown_ = std::chrono::steady_clock::now();
  if (settings_.quiet) return;
  const std::string line = progress(number);
  std::cout << (terminal_ ? "\r\033[K" + fitted(line) : line + "\n") << std::flush;
  line_open_ = terminal_;
  validation_.reset();
}

void RunLog::end_progress() {
  if (line_open_) std::cout << std::endl;
  line_open_ = false;
}

void RunLog::validation(std::int64_t number, const ValidationResult& result) {
  validation_ = result;
  nlohmann::json line = result;
  line["step"] = number;
  write(line);
}

void RunLog::note(std::int64_t number, const char* name, const nlohmann::json& value) {
  write({{"step", number}, {name, value}});
}

void RunLog::ranks(std::optional<double> bubble, std::int64_t fullest) {
  bubble_ = bubble;
  fullest_ = fullest;
}

void RunLog::say(const std::string& line) {
  if (settings_.quiet) return;
  end_progress();
  std::cout << line << std::endl;
}

void RunLog::warn(const std::string& line) {
  end_progress();
  std::cerr << "warning: " + line + '\n';
}

void RunLog::replace_earlier() {
  if (files_->beside_earlier()) {
    files_->replace_earlier();
    std::error_code ignored;
    fs::remove(settings_.out / summary_name, ignored);
  }
  settings_.saved(settings_.out);
}

}  // namespace plangrad::parallel
