// Checkpoints: what is saved comes back bit for bit, whatever the cut; a save that is interrupted
// leaves the one before it; damage has its message.
#include "nn/checkpoint/checkpoint.h"

#include <fstream>
#include <set>

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "nn/models/model.h"
#include "nn/optimizers/optimizer.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/guarded_device.h"
#include "tests/in_threads.h"
#include "tests/manifests.h"
#include "tests/small_disk.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::guarded_device;
using plangrad::tests::in_threads;
using plangrad::tests::SmallDisk;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const GptConfig config{2, 2, 8, 6, 11, 0, true};
const json run = {{"seed", 7}, {"vocabulary", {"a", "ö", "\n"}}};

/// A folder that is gone when the test ends.
struct Folder : plangrad::tests::TemporaryFolder {
  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto& file : fs::directory_iterator(path)) result.insert(file.path().filename());
    return result;
  }
};

std::vector<char> bytes_of(const Tensor& x) {
  std::vector<char> bytes(x.bytes());
  x.backend().copy_to_host(x, bytes.data());
  return bytes;
}

/// Writes weights and state of a whole model, and commits both.
void save_checkpoint(const fs::path& folder, std::int64_t step, const json& run,
                     const ParameterList& parameters, const Tensor& weights,
                     const FlatBuffers& state) {
  std::vector<CheckpointFile> files;
  files.push_back(write_checkpoint_file(folder, "model", step, parameters, {{"", weights}}));
  if (!state.empty())
    files.push_back(write_checkpoint_file(folder, "optimizer", step, parameters, state));
  commit_checkpoint(folder, step, run, files);
}

/// A model, or layers [first, last) of it, after an optimizer has run.
struct Run {
  DevicePtr device = guarded_device();
  Stage stage;
  Tensor weights;
  std::unique_ptr<Optimizer> optimizer;

  explicit Run(DType dtype = DType::f32, GptConfig model = config, int first = 0, int last = 4)
      : stage(gpt(model), first, last),
        weights(zeros({stage.parameters().numel()}, dtype, device)),
        optimizer(make_adamw(stage.parameters(), weights)) {}

  /// Fills weights and state from a seed, by an update with random gradients.
  Run& train(std::uint64_t seed) {
    initialize(stage.parameters(), weights, seed);
    optimizer->reset_master(weights);
    Tensor gradients = empty(weights.shape(), gradient_dtype(weights.dtype()), device);
    device->backend().fill_normal(RandomKey(seed, "gradients"), 0, 1, gradients);
    optimizer->step({}, weights, gradients);
    return *this;
  }
  void save(const fs::path& folder, std::int64_t step) const {
    save_checkpoint(folder, step, run, stage.parameters(), weights, optimizer->state());
  }
  Run& load(const fs::path& folder) {
    Checkpoint checkpoint(folder);
    checkpoint.load_weights(stage.parameters(), weights);
    for (const auto& [name, state] : optimizer->state())
      checkpoint.load_state(name, stage.parameters(), state);
    return *this;
  }
  /// Bytes of the weights, then of all state.
  std::vector<std::vector<char>> bits() const {
    std::vector<std::vector<char>> result = {bytes_of(weights)};
    for (const auto& [name, state] : optimizer->state()) result.push_back(bytes_of(state));
    return result;
  }
};

template <class... Arguments>
Run trained(std::uint64_t seed, Arguments... arguments) {
  Run run(arguments...);
  run.train(seed);
  return run;
}

/// The message with which `action` is refused, on one line.
std::string refusal(const std::function<void()>& action) {
  const std::string message = plangrad::tests::error_of(action);
  CHECK_THAT(message, !Contains("\n"));
  return message;
}

}  // namespace

TEST_CASE("a checkpoint restores weights, optimizer state, step and run bit for bit") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Folder folder;
    Run saved = trained(1, dtype);
    saved.save(folder.path / "a/b", 1000);
    CHECK(fs::exists(folder.path / "a/b/model-1000.safetensors"));
    CHECK(fs::exists(folder.path / "a/b/optimizer-1000.safetensors"));

    Checkpoint checkpoint(folder.path / "a/b");
    CHECK(checkpoint.step() == 1000);
    CHECK(checkpoint.run() == run);
    checkpoint.check_model(saved.stage.parameters());
    Run other = trained(2, dtype);
    REQUIRE(other.bits() != saved.bits());
    CHECK(other.load(folder.path / "a/b").bits() == saved.bits());
    CHECK(saved.optimizer->state().size() == (dtype == DType::bf16 ? 3 : 2));
  }
}

TEST_CASE("a model without optimizer state can be saved") {
  Folder folder;
  Run saved = trained(1), other;
  save_checkpoint(folder.path, 0, run, saved.stage.parameters(), saved.weights, {});
  CHECK(folder.names() == std::set<std::string>{"manifest.json", "model-0.safetensors"});
  Checkpoint(folder.path).load_weights(other.stage.parameters(), other.weights);
  CHECK(bytes_of(other.weights) == bytes_of(saved.weights));
}

TEST_CASE("stages of any cut read the checkpoint of the whole") {
  Folder folder;
  Run whole = trained(1);
  whole.save(folder.path, 3);
  for (int cut = 1; cut < 4; ++cut) {
    for (auto [first, last] : {std::pair(0, cut), std::pair(cut, 4)}) {
      Run part(DType::f32, config, first, last);
      part.load(folder.path);
      bool tied = false;
      for (const Parameter& parameter : part.stage.parameters()) {
        tied |= parameter.name == "wte.weight";
        for (const Parameter& origin : whole.stage.parameters()) {
          if (origin.name != parameter.name) continue;
          auto same = [&](const Tensor& a, const Tensor& b) {
            return bytes_of(a.window(parameter.offset, parameter.shape)) ==
                   bytes_of(b.window(origin.offset, origin.shape));
          };
          CHECK(same(part.weights, whole.weights));
          for (std::size_t i = 0; i < 2; ++i)
            CHECK(same(part.optimizer->state()[i].second, whole.optimizer->state()[i].second));
        }
      }
      CHECK(tied);  // the first stage embeds with the table, the last reads it as its head
    }
  }
}

TEST_CASE("stages may write files of their own, and the whole reads them") {
  Folder folder;
  GptConfig untied = config;
  untied.tied = false;
  Run first = trained(1, DType::f32, untied, 0, 2), last = trained(1, DType::f32, untied, 2, 4);
  std::vector<CheckpointFile> files;
  for (const auto& [stem, part] : {std::pair("model_stage0", &first), {"model_stage1", &last}})
    files.push_back(write_checkpoint_file(folder.path, stem, 5, part->stage.parameters(),
                                          {{"", part->weights}}));
  CHECK(refusal([&] { Checkpoint{folder.path}; }).find("holds no checkpoint") != std::string::npos);
  commit_checkpoint(folder.path, 5, run, files);

  Run whole(DType::f32, untied);
  Checkpoint(folder.path).load_weights(whole.stage.parameters(), whole.weights);
  std::vector<char> both = bytes_of(first.weights), rest = bytes_of(last.weights);
  both.insert(both.end(), rest.begin(), rest.end());
  CHECK(bytes_of(whole.weights) == both);

  for (int i = 0; i < 2; ++i)
    files[i] = write_checkpoint_file(folder.path, text("model_stage", i), 6,
                                     first.stage.parameters(), {{"", first.weights}});
  commit_checkpoint(folder.path, 6, run, files);
  CHECK_THROWS_WITH(Checkpoint(folder.path), Contains("is in two of its files"));
  CHECK_THROWS_WITH(commit_checkpoint(folder.path, 6, run, {files[0], files[0]}),
                    Contains("two files are called model_stage0-6.safetensors"));
}

TEST_CASE("ranks write files of their own, at once, and any other layout reads them") {
  Folder folder;
  Model model = gpt(config);
  Run whole = trained(1);
  auto write = [&](int rank, const std::vector<int>& cuts) {
    Shared shared = shared_parameters(model, cuts);
    Stage stage(model, cuts[rank], cuts[rank + 1], shared.parameters);
    auto values = [&](const ParameterList& list) {
      Tensor flat = zeros({list.numel()}, DType::f32, cpu_device());
      initialize(list, flat, 1);
      return flat;
    };
    std::string stem = text("model_", rank);
    std::vector<CheckpointFile> files;
    auto add = [&](const std::string& stem, const ParameterList& list) {
      files.push_back(write_checkpoint_file(folder.path, stem, 5, list, {{"", values(list)}}));
    };
    add(stem, stage.parameters());
    if (!shared.stages.empty() && rank == shared.stages[0]) add("model_shared", shared.parameters);
    return files;
  };
  std::vector<std::vector<CheckpointFile>> written(3);
  in_threads(3, [&](int rank) { written[rank] = write(rank, {0, 1, 3, 4}); });
  std::vector<CheckpointFile> files;
  for (const auto& some : written) files.insert(files.end(), some.begin(), some.end());
  CHECK(files.size() == 4);
  commit_checkpoint(folder.path, 5, run, files);

  Checkpoint checkpoint(folder.path);
  checkpoint.check_model(whole.stage.parameters());
  Run other;
  initialize(whole.stage.parameters(), whole.weights, 1);
  checkpoint.load_weights(other.stage.parameters(), other.weights);
  CHECK(bytes_of(other.weights) == bytes_of(whole.weights));
  Shared shared = shared_parameters(model, {0, 2, 4});
  Stage last(model, 2, 4, shared.parameters);
  Tensor table = zeros({last.shared_parameters().numel()}, DType::f32, other.device);
  checkpoint.load_weights(last.shared_parameters(), table);
  CHECK(bytes_of(table) == bytes_of(whole.weights.window(0, table.shape())));
}

TEST_CASE(
    "older versions of the weights are read where they were saved, else the oldest there is") {
  Folder folder;
  GptConfig untied = config;
  untied.tied = false;
  Run first(DType::f32, untied, 0, 2), last(DType::f32, untied, 2, 4), whole(DType::f32, untied);
  // Every value of a version is its number: the first stage has three versions, the last has one.
  auto version = [](const Run& run, double number) {
    return full(run.weights.shape(), number, DType::f32, run.device);
  };
  FlatBuffers three = {{version_name(0), version(first, 9)},
                       {version_name(1), version(first, 8)},
                       {version_name(2), version(first, 7)}};
  commit_checkpoint(
      folder.path, 5, run,
      {write_checkpoint_file(folder.path, "model_0", 5, first.stage.parameters(), three),
       write_checkpoint_file(folder.path, "model_1", 5, last.stage.parameters(),
                             {{version_name(0), version(last, 9)}})});

  Checkpoint checkpoint(folder.path);
  checkpoint.check_model(whole.stage.parameters());
  for (int back = 0; back < 5; ++back) {
    checkpoint.load_version(back, whole.stage.parameters(), whole.weights);
    std::vector<double> expected(first.weights.numel(), 9 - std::min(back, 2));
    expected.resize(whole.weights.numel(), 9);
    CHECK(to_host(whole.weights) == expected);
  }
  CHECK(version_name(0).empty());
  CHECK(version_name(2) == "version-2");
  CHECK_THROWS_WITH(checkpoint.load_version(-1, whole.stage.parameters(), whole.weights),
                    Contains("-1 versions back"));
  Run other(DType::f32, config, 0, 3);
  CHECK_THROWS_WITH(checkpoint.load_version(1, other.stage.parameters(), {}),
                    Contains("the buffer to fill"));
  GptConfig deep = untied;
  deep.layers = 3;
  Run third(DType::f32, deep, 3, 4);
  CHECK_THROWS_WITH(checkpoint.load_version(1, third.stage.parameters(), third.weights),
                    Contains("has no tensor h.2.ln_1.weight"));
}

TEST_CASE("weights are rounded to the buffer's type, state is not") {
  Folder folder;
  Run saved = trained(1), rounded(DType::bf16), back;
  saved.save(folder.path, 1);
  Checkpoint checkpoint(folder.path);
  checkpoint.load_weights(rounded.stage.parameters(), rounded.weights);
  std::vector<double> exact = to_host(saved.weights), values = to_host(rounded.weights);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    wrong += values[i] != static_cast<float>(bf16(static_cast<float>(exact[i])));
  CHECK(wrong == 0);
  CHECK_THROWS_WITH(checkpoint.load_state("master", rounded.stage.parameters(), rounded.weights),
                    Contains("has no tensor master/wte.weight"));
  CHECK_THROWS_WITH(
      checkpoint.load_state("first_moment", rounded.stage.parameters(), rounded.weights),
      Contains("has first_moment/wte.weight in f32, the run in bf16"));

  // And the other way: bf16 weights widen, their master is exact.
  Run half = trained(1, DType::bf16);
  half.save(folder.path, 2);
  Checkpoint(folder.path).load_weights(back.stage.parameters(), back.weights);
  CHECK(to_host(back.weights) == to_host(half.weights));
  Checkpoint(folder.path).load_state("master", back.stage.parameters(), back.weights);
  CHECK(bytes_of(back.weights) == bytes_of(half.optimizer->state()[2].second));
}

TEST_CASE("a new save replaces the old one and removes its files, and only those") {
  Folder folder;
  Run().train(1).save(folder.path, 1);
  write_file(folder.path / "notes-1.txt", "mine");
  write_file(folder.path / "model-00001-of-00002.safetensors", "mine");
  Run second = trained(2);
  second.save(folder.path, 2);
  CHECK(folder.names() == std::set<std::string>{"manifest.json", "model-2.safetensors",
                                                "optimizer-2.safetensors", "notes-1.txt",
                                                "model-00001-of-00002.safetensors"});
  CHECK(Run().load(folder.path).bits() == second.bits());
}

TEST_CASE("an open checkpoint can be read while a newer one replaces it") {
  Folder folder;
  Run first = trained(1), other;
  first.save(folder.path, 1);
  Checkpoint old(folder.path);
  Run().train(2).save(folder.path, 2);
  old.load_weights(other.stage.parameters(), other.weights);
  CHECK(bytes_of(other.weights) == bytes_of(first.weights));
}

TEST_CASE("a save that stops at any moment leaves the checkpoint before it") {
  Folder folder;
  Run first = trained(1), second = trained(2);
  first.save(folder.path, 1);
  const std::set<std::string> before = folder.names();
  const ParameterList& parameters = second.stage.parameters();
  auto first_is_offered = [&] {
    CHECK(Checkpoint(folder.path).step() == 1);
    CHECK(Run().load(folder.path).bits() == first.bits());
  };

  SECTION("in the middle of a data file") {
    write_checkpoint_file(folder.path, "model", 2, parameters, {{"", second.weights}});
    fs::rename(folder.path / "model-2.safetensors", folder.path / "model-2.safetensors.tmp");
    fs::resize_file(folder.path / "model-2.safetensors.tmp", 5000);
    first_is_offered();
  }
  SECTION("before the manifest") {
    write_checkpoint_file(folder.path, "model", 2, parameters, {{"", second.weights}});
    write_checkpoint_file(folder.path, "optimizer", 2, parameters, second.optimizer->state());
    write_file(folder.path / "manifest.json.plangrad-partial", "{\"format\":");
    first_is_offered();
  }
  SECTION("before the manifest, when the same step is saved again") {
    write_checkpoint_file(folder.path, "model", 1, parameters, {{"", second.weights}});
    write_checkpoint_file(folder.path, "optimizer", 1, parameters, second.optimizer->state());
    first_is_offered();
    second.save(folder.path, 1);
    CHECK(folder.names().contains("model-1.again.safetensors"));
    CHECK(Run().load(folder.path).bits() == second.bits());
  }
  SECTION("because the disk is full") {
    const SmallDisk disk(12000);
    CHECK_THROWS_WITH(second.save(folder.path, 2), Contains("File too large"));
    first_is_offered();
  }
  SECTION("because the manifest can't be written") {
    fs::create_directory(folder.path / "manifest.json.plangrad-partial");
    CHECK_THROWS_WITH(second.save(folder.path, 2), Contains("can't write"));
    first_is_offered();
    fs::remove(folder.path / "manifest.json.plangrad-partial");
  }
  SECTION("because the run can't be described") {
    CHECK_THROWS_WITH(save_checkpoint(folder.path, 2, "\xff", parameters, second.weights, {}),
                      Contains("not UTF-8"));
    first_is_offered();
  }

  second.save(folder.path, 1);
  CHECK(folder.names().size() == 3);
  CHECK(Run().load(folder.path).bits() == second.bits());
  second.save(folder.path, 1);
  CHECK(folder.names().size() == before.size());
}

TEST_CASE("a damaged checkpoint is refused, and says where") {
  Folder folder;
  Run saved = trained(1);
  saved.save(folder.path, 1);
  const fs::path manifest = folder.path / "manifest.json",
                 model = folder.path / "model-1.safetensors";
  const std::string good = read_file(manifest);
  auto message = [&] { return refusal([&] { Checkpoint{folder.path}; }); };
  auto with = [&](const char* field, const json& value) {
    json changed = json::parse(good);
    changed[field] = value;
    write_file(manifest, plangrad::tests::signed_manifest(changed));
    return message();
  };

  CHECK_THAT(with("format", "zip"), Contains("\"format\" is not \"plangrad checkpoint\""));
  CHECK_THAT(with("version", 0), Contains("it has version 0, this program reads 1 to 2"));
  CHECK_THAT(with("version", 3), Contains("its format has version 3, this program reads 1 to 2") &&
                                     Contains("use the plangrad that wrote it, or a newer") &&
                                     !Contains("damaged"));
  CHECK_THAT(with("step", -1), Contains("\"step\" is not a whole number from 0"));
  CHECK_THAT(with("step", "1"), Contains("\"step\" is not a whole number"));
  CHECK_THAT(with("files", 3), Contains("manifest.json is damaged"));
  for (const json& none : {json::array(), json::object(), json()})
    CHECK_THAT(with("files", none),
               Contains("manifest.json is damaged") && Contains("it names no files"));
  CHECK_THAT(with("files", {{{"name", "../x"}, {"bytes", 1}}}), Contains("\"../x\", which is not"));
  CHECK_THAT(with("files", {{{"name", "x"}}}), Contains("manifest.json is damaged"));
  for (std::size_t length = 1; length + 2 < good.size(); length += 13) {
    write_file(manifest, good.substr(0, length));
    CHECK_THAT(message(), Contains("manifest.json is damaged: it is not valid JSON"));
  }
  std::ofstream(manifest).close();
  CHECK_THAT(message(), Contains("manifest.json is empty"));
  json without = json::parse(good);
  without.erase("run");
  write_file(manifest, plangrad::tests::signed_manifest(without));
  CHECK_THAT(message(), Contains("manifest.json is damaged"));
  fs::remove(manifest);
  CHECK_THAT(message(), Contains("holds no checkpoint: it has no manifest.json"));

  write_file(manifest, good);
  const std::string data = read_file(model);
  write_file(model, data.substr(0, data.size() - 1));
  CHECK_THAT(message(),
             Contains(" is damaged: model-1.safetensors has " + std::to_string(data.size() - 1) +
                      " bytes, its manifest says " + std::to_string(data.size())));
  std::string garbage = data;
  garbage[8] = 'x';
  write_file(model, garbage);
  CHECK_THAT(message(), Contains("header does not begin with '{'"));
  fs::remove(model);
  CHECK_THAT(message(), Contains("is not complete: it lacks model-1.safetensors"));
  write_file(model, data);
  CHECK(Run().load(folder.path).bits() == saved.bits());
}

TEST_CASE("the checkpoint of another model is refused, with both shapes") {
  Folder folder;
  Run().train(1).save(folder.path, 1);
  const Checkpoint checkpoint(folder.path);
  auto changed = [&](auto change) {
    GptConfig other = config;
    change(other);
    Run model(DType::f32, other, 0, other.layers + 2);
    return std::pair(refusal([&] { checkpoint.check_model(model.stage.parameters()); }),
                     refusal([&] { model.load(folder.path); }));
  };
  auto [wide, wide_load] = changed([](GptConfig& c) { c.width = 10; });
  CHECK_THAT(wide, Contains("has wte.weight as (11,8), the model as (11,10)"));
  CHECK(wide_load == wide);
  auto [deep, deep_load] = changed([](GptConfig& c) { c.layers = 3; });
  CHECK_THAT(deep, Contains("has no tensor h.2.ln_1.weight, which the model has as (8)"));
  CHECK(deep_load == deep);
  auto [shallow, shallow_load] = changed([](GptConfig& c) { c.layers = 1; });
  CHECK_THAT(shallow, Contains("has a tensor h.1.attn.c_attn.bias (24), which the model lacks"));
  CHECK(shallow_load.empty());  // part of a model is what a stage is

  Run model;
  Tensor narrow = zeros({3}, DType::f32, model.device);
  for (const std::string& message :
       {refusal([&] { checkpoint.load_weights(model.stage.parameters(), narrow); }),
        refusal([&] { checkpoint.load_state("momentum", model.stage.parameters(), narrow); }),
        refusal(
            [&] { save_checkpoint(folder.path, 2, run, model.stage.parameters(), narrow, {}); }),
        refusal([&] { save_checkpoint(folder.path, 2, run, model.stage.parameters(), {}, {}); })})
    CHECK_THAT(message, Contains("there are 1896 parameters, and the buffer "));
  CHECK_THROWS_WITH(checkpoint.load_state("momentum", model.stage.parameters(), model.weights),
                    Contains("has no tensor momentum/wte.weight"));
}

TEST_CASE("a folder that can't be made or written to is an error") {
  Folder folder;
  Run model;
  fs::create_directories(folder.path);
  write_file(folder.path / "file", "not a folder");
  CHECK_THROWS_WITH(model.save(folder.path / "file", 1), Contains("file"));
  CHECK_THROWS_WITH(model.save(folder.path / "file/checkpoint", 1),
                    Contains("can't create the folder"));
  CHECK_THROWS_WITH(model.save(folder.path, -1), Contains("steps are numbered from 0"));
  CHECK_THROWS_WITH(write_checkpoint_file(folder.path, "a-b", 1, model.stage.parameters(), {}),
                    Contains("\"a-b\""));
  CHECK(read_file(folder.path / "file") == "not a folder");
}
