// Names folders by the time at which they are made, and by a number if two are made at once;
// chooses a model's reader by the files that a folder has. Chapter 02.
#include "examples/programs/run_folder.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/error.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/text/byte_pair.h"
#include "parallel/observers/metric_files.h"

namespace plangrad::examples {

namespace fs = std::filesystem;
using namespace nn;

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
  return folder;
}

void point_latest_to(const fs::path& folder) {
  fs::path link = latest_run;
  link += autograd::text(".", folder.filename().string());
  std::error_code ignored;  // a file system without links has no newest run
  fs::remove(link, ignored);
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
  LoadedGpt gpt =
      fs::exists(folder / "config.json") ? load_folder(folder, device) : load_run(folder, device);
  gpt.stage->bind(gpt.weights);
  return gpt;
}

namespace {

/// The files of an export. Hugging Face's from_pretrained() reads no others.
constexpr const char* export_files[] = {
    "config.json",    "generation_config.json", "merges.txt", "model.safetensors",
    "tokenizer.json", "tokenizer_config.json",  "vocab.json"};
/// The file of their checksums, which also marks them as ours. Its last line is its own checksum.
constexpr const char* export_list = "plangrad-checksums.txt";
constexpr const char* list_title = "CRC-32 of the files that plangrad exported here\n";
constexpr const char* unfinished_list = "an export by plangrad that is not complete\n";

std::string bytes_of(const fs::path& path) try {
  return read_file(path, most::config);
} catch (const Error&) {
  return "";
}

std::string file_checksum(const fs::path& path) {
  const OpenFile file(path);
  std::vector<std::byte> part(1 << 20);
  std::uint32_t sum = 0;
  for (std::uint64_t at = 0; at < file.size(); at += part.size()) {
    part.resize(std::min<std::uint64_t>(part.size(), file.size() - at));
    file.read(at, part);
    sum = crc32_of(part, sum);
  }
  return digits_of(sum);
}

/// The first difference of an export from its list; empty if there is none.
///   all: files that are not there differ, too
std::string difference(const fs::path& folder, const std::string& list, bool all) try {
  const std::string name = (folder / export_list).string();
  if (list == unfinished_list) return all ? name + " says that the export is not complete" : "";
  const std::size_t last = std::min(list.size(), std::size_t{9});  // its line, of eight digits
  const std::string above = list.substr(0, list.size() - last);
  if (!above.starts_with(list_title) || list != above + checksum_of(above) + '\n')
    return name + " is damaged";
  std::istringstream lines(above.substr(std::string(list_title).size()));
  for (std::string checksum, file; lines >> checksum >> file;) {
    if (!fs::exists(folder / file) && !all) continue;
    if (!fs::exists(folder / file)) return (folder / file).string() + " is missing";
    if (file_checksum(folder / file) != checksum)
      return (folder / file).string() + " is not as it was exported";
  }
  return "";
} catch (const Error& error) {
  return error.what();
}

bool holds_export(const fs::path& folder) { return fs::exists(folder / export_list); }

/// Whether a folder holds files with the names of an export's, which none of ours wrote.
bool holds_others_model(const fs::path& folder) {
  if (fs::is_symlink(folder) || holds_export(folder)) return false;  // a link is not followed
  return std::ranges::any_of(export_files,
                             [&](const char* file) { return fs::exists(folder / file); });
}

/// Removes the files of an export, and the folder if it holds no others.
void remove_files(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_symlink(folder)) {  // to files that are not ours
    fs::remove(folder, ignored);
    return;
  }
  if (holds_export(folder)) write_file(folder / export_list, unfinished_list);
  for (const char* file : export_files) fs::remove(folder / file, ignored);
  fs::remove(folder / export_list, ignored);
  fs::remove(folder, ignored);
}

void write_files(const LoadedGpt& gpt, const fs::path& folder) {
  make_folder(folder);
  write_file(folder / export_list, unfinished_list);
  std::optional<int> end;
  if (const auto* pairs = dynamic_cast<const BytePairVocabulary*>(gpt.vocabulary.get()))
    end = pairs->separator();
  write_gpt_folder(folder, gpt.config, gpt.stage->parameters(), gpt.weights, end);
  if (gpt.vocabulary) write_tokenizer(*gpt.vocabulary, folder, gpt.config.context);
  std::string list = list_title;
  for (const char* file : export_files)
    if (fs::exists(folder / file)) list += file_checksum(folder / file) + ' ' + file + '\n';
  write_file(folder / export_list, list + checksum_of(list) + '\n');
}

/// Writes an export beside its folder, and puts it there as a whole, with files of others that the
/// folder holds.
void replace_export(const LoadedGpt& gpt, const fs::path& asked) {
  const fs::path folder = (asked / "").parent_path();  // the same for DIR and DIR/
  fs::path unfinished = folder;
  unfinished += ".partial";
  for (const fs::path& each : {folder, unfinished})
    PG_CHECK(!holds_others_model(each), each.string(), " holds a model that plangrad did not ",
             "export there: move it away, or export into a new folder");
  remove_files(unfinished);
  write_files(gpt, unfinished);
  remove_files(folder);
  std::error_code problem;
  std::vector<fs::path> others;  // of the user, such as a README.md
  for (const fs::directory_entry& file : fs::directory_iterator(folder, problem))
    others.push_back(file.path());
  for (const fs::path& file : others) fs::rename(file, unfinished / file.filename());
  fs::remove(folder, problem);
  fs::rename(unfinished, folder, problem);
  PG_CHECK(!problem, "can't write ", folder.string(), ": ", problem.message());
}

}  // namespace

std::optional<std::string> export_damage(const fs::path& folder, bool all) {
  for (;;) {  // until nobody has replaced the export meanwhile
    const std::string list = bytes_of(folder / export_list);
    if (!holds_export(folder)) return std::nullopt;
    const std::string found = difference(folder, list, all);
    if (found.empty() || bytes_of(folder / export_list) == list) return found;
  }
}

void check_export(const fs::path& folder) {
  const std::string damage = export_damage(folder, /*all*/ false).value_or("");
  PG_CHECK(damage.empty(), damage, ": export the model again, or, if another program changed the ",
           "file on purpose, remove ", (folder / export_list).string());
}

void export_gpt(const LoadedGpt& gpt, const fs::path& folder) {
  if (fs::exists(folder) && !fs::is_empty(folder) && !holds_export(folder))
    throw UsageError(folder.string() + " holds files that are no export: name a new folder");
  replace_export(gpt, folder);
}

fs::path export_of(const fs::path& run) { return run / "huggingface"; }

void remove_export(const parallel::SessionScope& scope) {
  const fs::path folder = export_of(scope.out);
  if (scope.overwrite || !holds_others_model(folder)) remove_files(folder);
}

void export_run(const fs::path& run) {
  replace_export(load_gpt(run, cpu_device()), export_of(run));
}

namespace {

/// Whether a folder without a checkpoint is a run's: it has its events, and was not seen to end.
bool is_of_unsaved_run(const fs::path& out) {
  std::error_code none;
  const nlohmann::json summary = parallel::json_in(out / "summary.json");
  if (summary.is_object() && summary.value("state", "running") != "running") return false;
  return std::ranges::any_of(fs::directory_iterator(out, none), [](const auto& file) {
    return parallel::is_event_file(file.path().filename().string());
  });
}

/// Checks that what a folder's checkpoint holds is an older state of the run.
void check_checkpoint(const fs::path& out, const OpenedCheckpoint* resumed) {
  std::string what = "another run";
  try {
    const Manifest newest = read_manifest(out / "checkpoint", manifest_name);
    const bool is_own =
        resumed && !newest.run_id.empty() && newest.run_id == resumed->manifest().run_id;
    if (is_own && newest.step <= resumed->manifest().step) return;
    if (is_own) what = "a newer update of this run";
  } catch (const Error&) {  // damaged
  }
  throw Error(text("--out ", out.string(), " holds ", what, ": continue that with --resume ",
                   out.string(), ", name another folder, or give it up with --overwrite"));
}

}  // namespace

void check_out(const parallel::SessionScope& scope) {
  const fs::path& out = scope.out;
  std::error_code ignored;
  if (scope.overwrite || out.empty() || !fs::exists(out, ignored)) return;
  PG_CHECK(!holds_others_model(export_of(out)), export_of(out).string(), " holds a model that ",
           "plangrad did not export there: move it away, or replace it with --overwrite");
  if (out == scope.resume) return;
  if (!manifests_of(out / "checkpoint").empty()) return check_checkpoint(out, scope.resumed.get());
  if (is_of_unsaved_run(out)) return;
  for (const char* name : {"metrics.jsonl", "metrics.csv", "summary.json", "report.html",
                           "trace.json", "plan.html", "recorded.plan", "diverged"})
    PG_CHECK(!fs::exists(fs::symlink_status(out / name, ignored)), "--out ", out.string(), " has ",
             name, ", which the run would replace, and no run to continue: name another folder, ",
             "or replace it with --overwrite");
}

}  // namespace plangrad::examples
