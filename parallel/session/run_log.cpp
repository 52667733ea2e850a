// A run that goes on copies the lines of its first steps; one in an occupied folder writes beside
// the earlier run's metrics until it saves. Each line is flushed, so a crash loses none.
// Chapter 02.
#include "parallel/session/run_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <vector>

#include "nn/checkpoint/file.h"

namespace paragrad::parallel {

namespace {

namespace fs = std::filesystem;

constexpr const char* metrics_name = "metrics.jsonl";
constexpr const char* summary_name = "summary.json";

/// Lines of a metrics file that belong to the first `steps` steps.
std::vector<std::string> earlier_lines(const fs::path& path, std::int64_t steps) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    bool counts = entry.is_object() && entry.contains("step") && entry["step"].is_number_integer();
    if (counts && entry["step"].get<std::int64_t>() <= steps) lines.push_back(line);
  }
  return lines;
}

/// "1:05", "2:00:00".
std::string clock_time(double seconds) {
  auto whole = static_cast<std::int64_t>(std::min(seconds, 1e9));
  std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

}  // namespace

RunLog::RunLog(const fs::path& folder, const RunSpan& span, bool quiet, const std::string& unit)
    : folder_(folder),
      path_(folder / metrics_name),
      unit_(unit),
      span_(span),
      quiet_(quiet),
      terminal_(isatty(STDOUT_FILENO)) {
  std::vector<std::string> lines;
  if (span.first > 0) lines = earlier_lines(span.earlier / metrics_name, span.first);
  std::error_code problem;
  fs::create_directories(folder, problem);
  bool occupied = fs::exists(path_, problem);
  if (occupied) path_ += ".partial";
  metrics_.open(path_);
  PG_CHECK(metrics_, "can't write ", path_.string(), "; choose another folder with --out");
  for (const std::string& line : lines) metrics_ << line << '\n';
  if (occupied && span.earlier != folder)
    say(text(folder.string(), " holds an earlier run, which stays until this one saves"));
}

RunLog::~RunLog() { end_progress(); }

void RunLog::write(const nlohmann::json& line) {
  metrics_ << line.dump() << '\n' << std::flush;
  PG_CHECK(metrics_, "can't write to ", path_.string(), "; is the disk full?");
}

void RunLog::step(std::int64_t number, const StepResult& result) {
  seconds_ += result.seconds;
  units_ += result.units;
  last_loss_ = result.loss;
  write({{"step", number},
         {"loss", result.loss},
         {"learning_rate", result.learning_rate},
         {"gradient_norm", result.gradient_norm},
         {"seconds", result.seconds},
         {unit_ + "_per_second", static_cast<double>(result.units) / result.seconds},
         {"bytes_sent", result.bytes_sent}});
  auto now = std::chrono::steady_clock::now();
  std::int64_t every = std::max<std::int64_t>(1, span_.last / 20);
  bool due = terminal_ ? now - shown_ > std::chrono::milliseconds(100) : number % every == 0;
  if (due || number == span_.first + 1 || number == span_.last) {
    show(number);
    shown_ = now;
  }
}

void RunLog::show(std::int64_t number) {
  if (quiet_) return;
  double a_step = seconds_ / static_cast<double>(number - span_.first);
  std::string validation;
  if (validation_) validation = fmt::format("  validation {:.4f}", validation_->loss);
  if (validation_ && validation_->accuracy)
    validation += fmt::format(" ({:.2f}% right)", 100 * *validation_->accuracy);
  std::cout << (terminal_ ? "\r\033[K" : "")
            << fmt::format("step {:>6}/{}  loss {:.4f}{}  {:.0f} {}/s  {} left", number, span_.last,
                           last_loss_, validation, static_cast<double>(units_) / seconds_, unit_,
                           clock_time(a_step * static_cast<double>(span_.last - number)))
            << (terminal_ ? "" : "\n") << std::flush;
  line_open_ = terminal_;
}

void RunLog::end_progress() {
  if (line_open_) std::cout << std::endl;
  line_open_ = false;
}

void RunLog::validation(std::int64_t number, const ValidationResult& result) {
  PG_CHECK(std::isfinite(result.loss), "step ", number, ": the validation loss is ", result.loss,
           ". Use a lower --learning-rate, a longer --warmup or a --clip of 1");
  validation_ = result;
  nlohmann::json line{{"step", number}, {"validation_loss", result.loss}};
  if (result.accuracy) line["validation_accuracy"] = *result.accuracy;
  write(line);
}

void RunLog::bits(std::int64_t number, const std::map<std::string, int>& bits) {
  write({{"step", number}, {"bits", bits}});
}

void RunLog::pruning(std::int64_t number, const nlohmann::json& found) {
  write({{"step", number}, {"pruning", found}});
}

void RunLog::say(const std::string& line) {
  if (quiet_) return;
  end_progress();
  std::cout << line << std::endl;
}

void RunLog::replace_earlier() {
  const fs::path final_path = folder_ / metrics_name;
  if (path_ == final_path) return;
  std::error_code problem;
  fs::rename(path_, final_path, problem);  // the open file moves along
  PG_CHECK(!problem, "can't replace ", final_path.string(), ": ", problem.message());
  fs::remove(folder_ / summary_name, problem);
  path_ = final_path;
}

void RunLog::summary(const nlohmann::json& figures) {
  nn::write_file(folder_ / summary_name, figures.dump(2) + "\n");
  say(text("figures of the run: ", (folder_ / summary_name).string()));
}

std::map<std::string, std::int64_t> memory_summary(const MemoryMeter& meter) {
  std::map<std::string, std::int64_t> peaks;
  for (int i = 0; i < category_count; ++i) {
    Category category = static_cast<Category>(i);
    peaks[name_of(category)] = meter.peak(category);
  }
  peaks["total"] = meter.peak();
  return peaks;
}

}  // namespace paragrad::parallel
