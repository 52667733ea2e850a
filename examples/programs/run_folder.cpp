// Names folders by the time at which they are made, and by a number if two are made at once;
// chooses a model's reader by the files that a folder has. Chapter 02.
#include "examples/programs/run_folder.h"

#include <fmt/chrono.h>
#include <unistd.h>
#include <fstream>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/error.h"
#include "examples/programs/exports.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "parallel/observers/metric_files.h"

namespace plangrad::examples {

namespace fs = std::filesystem;
using namespace nn;

/// Whether runs/latest is a user's file or folder, which stays. Runs only leave links there.
static bool is_others_latest() {
  const fs::file_status there = fs::symlink_status(latest_run);
  return fs::exists(there) && !fs::is_symlink(there);
}

fs::path new_run_folder(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  const std::string usual = fmt::format("{:%Y-%m-%d-%H%M%S}-{}", fmt::localtime(now), name);
  nn::make_folder(latest_run.parent_path());
  fs::path folder = latest_run.parent_path() / usual;
  std::error_code problem;
  for (int number = 2; !fs::create_directory(folder, problem); ++number) {
    PG_CHECK(!problem, "can't make the folder ", folder.string(), ": ", problem.message(),
             "; name another with --out");
    folder = latest_run.parent_path() / autograd::text(usual, '-', number);
  }
  if (is_others_latest())
    tell("note: " + latest_run.string() + " is no link that a run left: it stays as it is");
  return folder;
}

void point_latest_to(const fs::path& folder) {
  if (is_others_latest()) return;
  fs::path link = latest_run;
  link += autograd::text(".", folder.filename().string());
  std::error_code ignored;  // a file system without links has no newest run
  if (fs::is_symlink(fs::symlink_status(link, ignored))) fs::remove(link, ignored);
  fs::create_directory_symlink(folder.filename(), link, ignored);
  if (!ignored) fs::rename(link, latest_run, ignored);
}

namespace {

/// Builds the network, still without weights.
void build(LoadedGpt& gpt, const fs::path& folder) {
  PG_CHECK(!gpt.vocabulary || gpt.vocabulary->size_without_added() <= gpt.config.vocabulary,
           folder.string(), ": the model knows ", gpt.config.vocabulary,
           " tokens, its vocabulary has ", gpt.vocabulary->size(),
           "; put the files of one model into the folder");
  gpt.stage = std::make_unique<Stage>(nn::gpt(gpt.config), 0, gpt.config.layers + 2);
}

/// Makes room for the weights.
void make_room(LoadedGpt& gpt, const DevicePtr& device) {
  CategoryScope category(*device, Category::weights);
  gpt.weights = empty({gpt.stage->parameters().numel()}, DType::f32, device);
}

LoadedGpt load_folder(const fs::path& folder, const DevicePtr& device) {
  check_export(folder);
  LoadedGpt gpt{read_gpt_config(folder), read_tokenizer(folder), nullptr, {}};
  build(gpt, folder);
  make_room(gpt, device);
  load_gpt_weights(folder, gpt.stage->parameters(), gpt.weights);
  return gpt;
}

LoadedGpt load_run(const fs::path& folder, const DevicePtr& device) {
  const IntactCheckpoint found = find_intact(checkpoint_of(folder));
  if (!found.news.empty()) tell(found.news);
  const Checkpoint& checkpoint = *found.checkpoint;
  const nlohmann::json& run = checkpoint.run();
  PG_CHECK(run.contains("flags") && run.contains("model"), folder.string(),
           ": its checkpoint was not written by train_gpt");
  LoadedGpt gpt{gpt_config(run.at("model")), nullptr, nullptr, {}};
  if (run.contains("vocabulary")) gpt.vocabulary = load_vocabulary(run.at("vocabulary"));
  build(gpt, folder);
  checkpoint.check_model(gpt.stage->parameters());
  make_room(gpt, device);
  checkpoint.load_weights(gpt.stage->parameters(), gpt.weights);
  return gpt;
}

}  // namespace

LoadedGpt load_gpt(const fs::path& folder, const DevicePtr& device) {
  const bool may_be_run = fs::exists(folder / "checkpoint") || !manifests_of(folder).empty() ||
                          other_weights(folder).empty();
  const bool is_run = !manifests_of(folder / "checkpoint").empty() ||  // whatever is beside that
                      (may_be_run && !fs::exists(folder / "config.json") &&
                       !fs::is_regular_file(folder));  // which load_folder() refuses
  if (is_run && fs::exists(folder / "config.json"))
    tell("note: " + folder.string() +
         " holds a run and a config.json: the run's weights are taken; " +
         "for those of a model of Hugging Face, copy its files to a folder of their own");
  LoadedGpt gpt = is_run ? load_run(folder, device) : load_folder(folder, device);
  gpt.stage->bind(gpt.weights);
  return gpt;
}

/// Whether a run has left its events in a folder.
static bool has_events(const fs::path& out) {
  std::error_code none;
  return std::ranges::any_of(fs::directory_iterator(out, none), [](const auto& file) {
    return parallel::is_event_file(file.path().filename().string());
  });
}

/// Whether a folder is that of a run which never saved: it has its events, an empty checkpoint/,
/// and was seen neither to save nor to end.
static bool is_of_unsaved_run(const fs::path& out) try {
  std::error_code none;
  const nlohmann::json summary = parallel::json_in(out / "summary.json");
  if (summary.is_object()) {
    if (summary.value("state", "running") != "running") return false;
    // Events up to `first` are those of the run that this one continued.
    const std::int64_t first = summary.value("steps", 0) - summary.value("session_steps", 0);
    for (const nlohmann::json& event : summary.value("events", nlohmann::json::array()))
      if (event.value("text", "") == "checkpoint saved" && event.value("step", first + 1) > first)
        return false;
  }
  return fs::is_directory(out / "checkpoint", none) && has_events(out);  // else it was moved away
} catch (const nlohmann::json::exception&) {                             // it is of another program
  return false;
}

/// Whether a folder has the metrics.jsonl that a run wrote until a save. A session that was killed
/// while it replaced an earlier one's has left it beside that.
static bool has_lines_of(const fs::path& run, const nlohmann::json& saved) {
  const auto written = saved.contains("metrics") ? saved.at("metrics") : nlohmann::json();
  const std::string usual = (run / "metrics.jsonl").string();
  return parallel::begins_as(usual, written) || parallel::begins_as(usual + partial, written);
}

/// Whether a folder has what a run wrote beside a save, and not others' files beside a copy of it.
static bool has_metrics_of(const fs::path& out, const nlohmann::json& saved) try {
  bool has_event = false;
  for (const std::string name : saved.at("metrics").at("events"))
    has_event = has_event || (parallel::is_event_file(name) && fs::exists(out / name));
  return has_event || has_lines_of(out, saved);
} catch (const nlohmann::json::exception&) {  // earlier versions' saves name no events, or no lines
  std::error_code none;
  const bool has_lines = saved.contains("metrics") ? has_lines_of(out, saved)
                                                   : fs::exists(out / "metrics.jsonl", none);
  return has_lines || has_events(out);
}

/// Whether a line of metrics.jsonl is as a run writes it after update `step`.
static bool is_run_line(const std::string& line, std::int64_t step) try {
  const std::string keys =
      " step loss learning_rate gradient_norm seconds bytes_sent bits tokens_per_second "
      "images_per_second validation_loss validation_accuracy pruning elastic drained "
      "updates_without_a_line ";
  const nlohmann::json values = parse_json(line);
  for (const auto& [key, value] : values.items())
    if (keys.find(' ' + key + ' ') == keys.npos) return false;
  return whole_number(values.at("step")) >= step && values.dump() == line;
} catch (const std::exception&) {
  return false;
}

/// Whether a file begins with what a run wrote until it saved update `step`, and only lines (or
/// rows, if it is the table) as a run writes them follow. The last line may be cut.
static bool is_as_written(const fs::path& path, const nlohmann::json& written, std::int64_t step,
                          bool is_table) {
  if (!parallel::begins_as(path, written)) return false;
  std::vector<char> bytes(4 << 20);
  std::ifstream file(path);
  file.seekg(written.at("bytes").get<std::int64_t>());
  while (file.getline(bytes.data(), std::ssize(bytes))) {
    const std::string line(bytes.data());
    const bool is_row = line.find_first_not_of("0123456789.,+-enul") == line.npos;  // null: NaN
    if (file.eof() && (is_table ? is_row : line.starts_with('{'))) continue;
    if (is_table ? !is_row || std::atoll(line.c_str()) < step : !is_run_line(line, step))
      return false;
  }
  return file.eof();
}

/// Whether metrics.jsonl, or the table, is as the run wrote it after one of its saves.
static bool is_of_a_save(const fs::path& run, const fs::path& file, bool is_table) {
  for (const std::string& name : manifests_of(run / "checkpoint")) try {
      const Manifest saved = read_manifest(run / "checkpoint", name);
      const nlohmann::json& metrics = saved.run->at("metrics");
      const nlohmann::json& written = is_table ? metrics.at("table") : metrics;
      if (is_as_written(file, written, saved.step, is_table)) return true;
    } catch (const std::exception&) {  // it is damaged, or an earlier version's
    }
  return false;
}

/// The files that a run's summary has noted at its end, by name: their bytes and checksums. Null if
/// it has noted none since it saved update `step`.
static nlohmann::json noted_files(const fs::path& run, std::int64_t step) try {
  const nlohmann::json summary = parallel::json_in(run / "summary.json");
  return whole_number(summary.at("steps")) == step ? summary.at("files") : nlohmann::json();
} catch (const std::exception&) {  // it was killed
  return nullptr;
}

/// Copies a file, if there is one, to a name beside it; a copy of the same bytes stays as it is.
/// Returns "; FILE stays in COPY".
static std::string copy_aside(const fs::path& file) {
  if (!fs::is_regular_file(file)) return "";
  const fs::path copy = parallel::name_aside(file);
  std::error_code problem;
  fs::copy_file(file, copy, fs::copy_options::skip_existing, problem);
  PG_CHECK(!problem, "can't copy ", file.string(), " to ", copy.string(), ": ", problem.message(),
           "; move it away");
  return text("; ", file.string(), " stays in ", copy.string());
}

std::string keep_edited_files(const parallel::SessionScope& scope) {
  const fs::path& run = scope.out;
  const bool resumes = run == scope.resume;
  if (!scope.resumed || (!resumes && (scope.overwrite || manifests_of(run / "checkpoint").empty())))
    return "";
  const Manifest saved =
      resumes ? scope.resumed->manifest() : read_manifest(run / "checkpoint", manifest_name);
  const nlohmann::json written = saved.run->value("metrics", nlohmann::json());
  const std::string lines = (run / "metrics.jsonl").string(),
                    table = (run / "metrics.csv").string();
  if (!written.contains("bytes")) return "";                             // an earlier version
  const nlohmann::json rows = written.value("table", nlohmann::json());  // null: an earlier version
  std::string kept;
  // The session before was killed while it replaced its files: first metrics.jsonl, then the table.
  const auto replace = [&](const std::string& file, bool is_table) {
    if (!is_of_a_save(run, file, is_table)) kept += parallel::OwnFiles().make_way(file);
    fs::rename(file + partial, file);
  };
  const bool lacks_lines = !parallel::begins_as(lines, written) && has_lines_of(run, *saved.run);
  if (lacks_lines) replace(lines, false);
  if (!fs::exists(lines + partial) && parallel::begins_as(table + partial, rows))
    replace(table, true);
  // What lines give anew can't be written from those that are lost.
  const bool lost = !parallel::begins_as(lines, written);
  const nlohmann::json noted = noted_files(run, std::max(saved.step, scope.given_up));
  for (const auto& [name, bytes] : noted.items()) {
    const bool is_last =
        lost && (name == "metrics.csv" || (parallel::is_event_file(name) && fs::exists(lines)));
    if (fs::path(name).filename() == name && (is_last || parallel::written_in(run / name) != bytes))
      kept += copy_aside(run / name);
  }
  if (noted.is_null()) {
    const bool own_lines = is_as_written(lines, written, saved.step, false);
    const bool own_table =
        rows.is_null() ? own_lines : !lost && is_as_written(table, rows, saved.step, true);
    kept += (own_lines ? "" : copy_aside(lines)) + (own_table ? "" : copy_aside(table));
  }
  return kept.empty() ? "" : "others have changed the run's files" + kept;
}

std::string keep_lost_metrics(const fs::path& run) {
  std::string kept;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    const fs::path file = run / name, next = file.string() + partial;
    const bool is_there = fs::exists(file) && fs::exists(next);
    if (is_there && !parallel::begins_as(next, parallel::written_in(file)))
      kept += parallel::OwnFiles().make_way(file);
  }
  return kept;
}

/// Checks that what a folder's checkpoint holds is an older state of the run.
static void check_checkpoint(const parallel::SessionScope& scope) {
  const std::string out = scope.out.string();
  std::string what = "another run";
  try {
    const Manifest newest = read_manifest(scope.out / "checkpoint", manifest_name);
    const Manifest from = scope.resumed ? scope.resumed->manifest() : Manifest();
    if (!newest.run_id.empty() && newest.run_id == from.run_id) {
      if (newest.step <= from.step && has_lines_of(scope.resume, *newest.run)) return;
      what = newest.step > from.step ? "a newer update of this run" : "a fork of this run";
    }
  } catch (const Error&) {  // damaged
  }
  throw Error(text("--out ", out, " holds ", what, ": continue that with --resume ", out,
                   ", name another folder, or give it up with --overwrite"));
}

void check_out(const parallel::SessionScope& scope) {
  constexpr auto names = std::to_array<const char*>(
      {"metrics.jsonl", "metrics.csv", "summary.json", "report.html", "trace.json", "plan.html",
       "recorded.plan", "checkpoint/manifest.json", "huggingface/plangrad-checksums.txt"});
  const std::span<const char* const> all(names);
  const fs::path& out = scope.out;
  std::error_code ignored;
  if (out.empty()) return;
  const bool is_new = !fs::exists(out, ignored);
  const fs::path written = is_new ? (fs::absolute(out) / "").parent_path().parent_path() : out;
  PG_CHECK(::access(written.c_str(), W_OK) == 0 || errno == ENOENT, "can't write to the folder ",
           written.string(), ": ", system_message(), "; choose another with --out");
  if (is_new) return check_parent(out);
  for (const char* name : all)
    PG_CHECK(!fs::is_directory(out / name, ignored), (out / name).string(),
             " is a folder: move it away");
  if (scope.overwrite) return;
  check_export_of(out, "replace it with --overwrite");
  const bool resumes = out == scope.resume;  // perhaps a copied checkpoint/ beside others' files
  if (resumes && has_metrics_of(out, scope.resumed_run())) return;
  if (!resumes && !manifests_of(out / "checkpoint").empty()) return check_checkpoint(scope);
  for (const fs::directory_entry& file : fs::directory_iterator(out / "checkpoint", ignored))
    PG_CHECK(resumes || file.path().extension() != ".safetensors", file.path().string(),
             " is of no checkpoint that the run could continue: move it away, name another ",
             "folder, or replace it with --overwrite");
  constexpr std::size_t early = 4;  // names that a run gives files before it saves
  const auto others = all.subspan(is_of_unsaved_run(out) ? early : 0);
  for (const char* name : resumes ? others.first(others.size() - 2) : others)
    PG_CHECK(!fs::exists(fs::symlink_status(out / name, ignored)), "--out ", out.string(), " has ",
             name, ", which the run would replace, and no run that wrote it: name another folder, ",
             "or replace it with --overwrite");
}

}  // namespace plangrad::examples
