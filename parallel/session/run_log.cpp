// A resumed run copies the lines of its first updates. A run in an occupied folder writes beside
// the earlier run's metrics until it saves. Each line is flushed, so a crash loses none.
// Chapter 02.
#include "parallel/session/run_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "nn/checkpoint/file.h"

namespace paragrad::parallel {

namespace {

namespace fs = std::filesystem;

constexpr const char* metrics_name = "metrics.jsonl";
constexpr const char* summary_name = "summary.json";

void make_writable(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  PG_CHECK(!problem && ::access(folder.c_str(), W_OK) == 0, "can't write to the folder ",
           folder.string(), "; choose another with --out");
}

/// Formats seconds as "1:05" or "2:00:00".
std::string clock_time(double seconds) {
  auto whole = static_cast<std::int64_t>(std::min(seconds, 1e9));
  std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

}  // namespace

void to_json(nlohmann::json& json, const ValidationResult& result) {
  json["validation_loss"] = result.loss;
  if (result.accuracy) json["validation_accuracy"] = *result.accuracy;
}

RunLog::RunLog(const SessionSettings& settings, int first)
    : settings_(settings),
      first_(first),
      path_(settings.out / metrics_name),
      terminal_(isatty(STDOUT_FILENO)) {
  std::vector<nlohmann::json> earlier;
  if (first > 0) earlier = metrics_of(settings.resume / metrics_name);
  make_writable(settings.out);
  make_writable(settings.out / "checkpoint");
  bool occupied = fs::exists(path_);
  if (occupied) path_ += ".partial";
  metrics_.open(path_);
  PG_CHECK(metrics_, "can't write ", path_.string(), "; choose another folder with --out");
  for (const nlohmann::json& line : earlier)
    if (line["step"] <= first) metrics_ << line.dump() << '\n';
  if (occupied && settings.resume != settings.out)
    say(text(settings.out.string(), " holds an earlier run, which stays until this one saves"));
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
         {settings_.unit + "_per_second", static_cast<double>(result.units) / result.seconds},
         {"bytes_sent", result.bytes_sent}});
  auto now = std::chrono::steady_clock::now();
  int every = std::max(1, settings_.steps / 20);
  bool due = terminal_ ? now - shown_ > std::chrono::milliseconds(100) : number % every == 0;
  if (due || number == first_ + 1 || number == settings_.steps) {
    show(number);
    shown_ = now;
  }
}

void RunLog::show(std::int64_t number) {
  if (settings_.quiet) return;
  double average = seconds_ / static_cast<double>(number - first_);
  std::string validation;
  if (validation_) validation = fmt::format("  validation {:.4f}", validation_->loss);
  if (validation_ && validation_->accuracy)
    validation += fmt::format(" ({:.2f}% right)", 100 * *validation_->accuracy);
  std::cout << (terminal_ ? "\r\033[K" : "")
            << fmt::format("step {:>6}/{}  loss {:.4f}{}  {:.0f} {}/s  {} left", number,
                           settings_.steps, last_loss_, validation, units_per_second(),
                           settings_.unit,
                           clock_time(average * static_cast<double>(settings_.steps - number)))
            << (terminal_ ? "" : "\n") << std::flush;
  line_open_ = terminal_;
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

void RunLog::say(const std::string& line) {
  if (settings_.quiet) return;
  end_progress();
  std::cout << line << std::endl;
}

void RunLog::replace_earlier() {
  const fs::path final_path = settings_.out / metrics_name;
  if (path_ == final_path) return;
  std::error_code problem;
  fs::rename(path_, final_path, problem);  // the open file moves along
  PG_CHECK(!problem, "can't replace ", final_path.string(), ": ", problem.message());
  fs::remove(settings_.out / summary_name, problem);
  path_ = final_path;
}

void RunLog::summary(const nlohmann::json& figures) {
  nn::write_file(settings_.out / summary_name, figures.dump(2) + "\n");
  say(text("figures of the run: ", (settings_.out / summary_name).string()));
}

std::vector<nlohmann::json> metrics_of(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains("step") && entry["step"].is_number_integer())
      lines.push_back(std::move(entry));
  }
  return lines;
}

}  // namespace paragrad::parallel
