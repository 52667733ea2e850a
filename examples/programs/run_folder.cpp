// Names folders by the time at which they are made, and by a number if two are made at once;
// chooses a model's reader by the files that a folder has. Chapter 02.
#include "examples/programs/run_folder.h"

#include <fmt/chrono.h>

#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/error.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/text/byte_pair.h"

namespace plangrad::examples {

namespace fs = std::filesystem;

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

namespace fs = std::filesystem;
using namespace nn;

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
  LoadedGpt gpt{read_gpt_config(folder), read_tokenizer(folder), nullptr, {}};
  build(gpt, folder);
  make_room(gpt, device);
  load_gpt_weights(folder, gpt.stage->parameters(), gpt.weights);
  return gpt;
}

LoadedGpt load_run(const fs::path& folder, const DevicePtr& device) {
  const IntactCheckpoint found = find_intact(checkpoint_of(folder));
  if (!found.news.empty()) std::cerr << printable(found.news) + '\n';
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

void export_gpt(const LoadedGpt& gpt, const fs::path& folder) {
  std::optional<int> end;
  if (const auto* pairs = dynamic_cast<const BytePairVocabulary*>(gpt.vocabulary.get()))
    end = pairs->separator();
  write_gpt_folder(folder, gpt.config, gpt.stage->parameters(), gpt.weights, end);
  if (gpt.vocabulary) write_tokenizer(*gpt.vocabulary, folder, gpt.config.context);
}

fs::path export_of(const fs::path& run) { return run / "huggingface"; }

void remove_export(const fs::path& run) {
  std::error_code ignored;
  if (fs::is_symlink(export_of(run))) {  // to files that are not the run's
    fs::remove(export_of(run), ignored);
    return;
  }
  for (const char* file :
       {"config.json", "generation_config.json", "merges.txt", "model.safetensors",
        "tokenizer.json", "tokenizer_config.json", "vocab.json"})
    fs::remove(export_of(run) / file, ignored);
  fs::remove(export_of(run), ignored);  // unless it holds files of the user
}

void export_run(const fs::path& run) {
  const fs::path folder = export_of(run);
  fs::path unfinished = folder;
  unfinished += ".partial";
  std::error_code problem;
  fs::remove_all(unfinished, problem);
  export_gpt(load_gpt(run, cpu_device()), unfinished);
  remove_export(run);
  std::vector<fs::path> others;  // of the user, such as a README.md
  for (const fs::directory_entry& file : fs::directory_iterator(folder, problem))
    others.push_back(file.path());
  for (const fs::path& file : others) fs::rename(file, unfinished / file.filename());
  fs::remove(folder, problem);
  fs::rename(unfinished, folder, problem);
  PG_CHECK(!problem, "can't write ", folder.string(), ": ", problem.message());
}

}  // namespace plangrad::examples
