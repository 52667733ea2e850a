// Checkpoints that are damaged, or mixed up: all of it is found, in data, headers and manifests.
// And what stays in a folder: checkpoints before the newest, and all that is not a checkpoint's.
#include <unistd.h>

#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/folders.h"
#include "tests/manifests.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::TemporaryFolder;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const Stage& small_network() {
  static const Stage stage(gpt({2, 2, 8, 6, 11, 0, true}), 0, 4);
  return stage;
}

/// Saves weights and a moment whose values follow from a seed.
void save(const fs::path& folder, const SaveMark& mark, std::uint64_t seed,
          const Retention& retention = {}) {
  const ParameterList& list = small_network().parameters();
  const Tensor weights = zeros({list.numel()}, DType::f32, cpu_device());
  weights.backend().fill_normal(RandomKey(seed, "weights"), 0, 1, weights);
  const json run = {{"flags", {{"--clip", 1.0}, {"--seed", seed}}}};
  commit_checkpoint(folder, mark, run,
                    {write_checkpoint_file(folder, "model", mark, list, {{"", weights}}),
                     write_checkpoint_file(folder, "optimizer", mark, list, {{"m", weights}})},
                    retention);
}

/// The error of a checkpoint that is opened and read whole; empty if there is none.
std::string error_of(const fs::path& folder) {
  return plangrad::tests::error_of([&] { Checkpoint(folder).verify(); });
}

std::set<std::string> names_in_folder(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.insert(file.path().filename());
  return names;
}

/// Replaces bytes of a file in place, without a new file.
void overwrite(const fs::path& path, std::size_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct Damaged {
  fs::path path;
  std::string bytes;
};

/// The files of a checkpoint with their bytes.
std::vector<Damaged> files_of(const fs::path& folder) {
  std::vector<Damaged> files;
  for (const std::string& name : names_in_folder(folder))
    files.push_back({folder / name, read_file(folder / name)});
  return files;
}

}  // namespace

TEST_CASE("a flipped bit at any place of a checkpoint is found", "[checkpoint]") {
  const TemporaryFolder folder;
  save(folder.path, {5, "0123456789abcdef"}, 1);
  REQUIRE(error_of(folder.path).empty());
  const std::vector<Damaged> files = files_of(folder.path);
  std::size_t all = 0, found = 0;
  for (const Damaged& file : files) all += file.bytes.size();
  std::mt19937_64 random(7);
  std::set<std::size_t> hit;
  const std::size_t tries = 1000;
  for (std::size_t i = 0; i < tries; ++i) {
    std::size_t place = random() % all, which = 0;
    if (i % 4 == 0) place = random() % files[0].bytes.size();  // the manifest, of few bytes
    while (place >= files[which].bytes.size()) place -= files[which++].bytes.size();
    const auto& [path, bytes] = files[which];
    hit.insert(which);
    overwrite(path, place, std::string(1, static_cast<char>(bytes[place] ^ (1 << random() % 8))));
    const bool is_found = !error_of(folder.path).empty();
    if (!is_found) UNSCOPED_INFO(path << " at " << place);
    found += is_found;
    overwrite(path, place, std::string(1, bytes[place]));
  }
  CHECK(found == tries);
  CHECK(hit.size() == 3);
  CHECK(error_of(folder.path).empty());
}

TEST_CASE("lost pages, other files and changed flags are found", "[checkpoint]") {
  const TemporaryFolder folder, other;
  save(folder.path, {5, "one"}, 1);
  const fs::path model = folder.path / "model-5.safetensors";
  const fs::path manifest = folder.path / "manifest.json";
  const std::string good = read_file(model), described = read_file(manifest);

  for (const std::size_t length : {64, 4096})
    for (std::size_t at = 0; at + length <= good.size(); at += length) {
      overwrite(model, at, std::string(length, '\0'));
      CHECK_FALSE(error_of(folder.path).empty());
      overwrite(model, at, good.substr(at, length));
    }
  REQUIRE(error_of(folder.path).empty());

  auto with = [&](const SaveMark& mark, std::uint64_t seed) {
    fs::remove_all(other.path);
    save(other.path, mark, seed);
    const std::string name = text("model-", mark.step, ".safetensors");
    fs::copy_file(other.path / name, model, fs::copy_options::overwrite_existing);
    const std::string message = error_of(folder.path);
    write_file(model, good);
    return message;
  };
  CHECK_THAT(with({5, "two"}, 1), Contains("model-5.safetensors belongs to another run"));
  CHECK_THAT(with({6, "one"}, 1), Contains("model-5.safetensors is of update 6, its manifest of "
                                           "update 5"));
  CHECK_THAT(with({5, "one"}, 2), Contains(" has the checksum ") && Contains("was written with "));

  std::string changed = described;
  changed.replace(changed.find("\"--clip\": 1.0") + 10, 3, "9.0");
  write_file(manifest, changed);
  CHECK_THAT(error_of(folder.path), Contains("its checksum is wrong"));
  json fields = json::parse(described);
  fields["version"] = 1;  // which has no checksums, so none would be looked at
  write_file(manifest, fields.dump());
  CHECK_THAT(error_of(folder.path), Contains("its checksum is wrong"));
  fields["version"] = 2;
  fields["step"] = 3;
  write_file(manifest, plangrad::tests::signed_manifest(fields));
  CHECK_THAT(error_of(folder.path), Contains("is of update 5, its manifest of update 3"));
  write_file(manifest, "{\"run\":" + std::string(100000, '[') + std::string(100000, ']') + "}");
  CHECK_THAT(error_of(folder.path), Contains("nested more than"));
}

TEST_CASE("a tensor is checked when it is read", "[checkpoint]") {
  const TemporaryFolder folder;
  save(folder.path, {5, "one"}, 1);
  const Checkpoint checkpoint(folder.path);
  const fs::path model = folder.path / "model-5.safetensors";
  overwrite(model, fs::file_size(model) - 1, "x");
  const ParameterList& list = small_network().parameters();
  const Tensor weights = zeros({list.numel()}, DType::f32, cpu_device());
  CHECK_THROWS_WITH(checkpoint.load_weights(list, weights), Contains(".safetensors: tensor "));
}

TEST_CASE("a checkpoint of a program without checksums is read", "[checkpoint]") {
  const fs::path old = plangrad::tests::clone_path("tests/references/checkpoint_v1/checkpoint");
  const Checkpoint checkpoint(old);
  CHECK(checkpoint.step() == 2);
  CHECK_FALSE(checkpoint.has_checksums());
  const Stage stage(gpt({1, 1, 8, 4, 4, 0, true}), 0, 3);
  checkpoint.check_model(stage.parameters());
  const Tensor weights = zeros({stage.parameters().numel()}, DType::f32, cpu_device());
  checkpoint.load_weights(stage.parameters(), weights);
  CHECK(to_host(weights).front() != 0);
  checkpoint.load_state("first_moment", stage.parameters(), weights);
  CHECK_THAT(find_intact(old).news, Contains("update 2 has no checksums"));
}

TEST_CASE("the checkpoints before the newest stay, and replace one that is damaged",
          "[checkpoint]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path;
  const SaveMark one(1, "a"), two(2, "a"), three(3, "a");
  save(path, one, 1, {2});
  CHECK(names_in_folder(path).size() == 3);
  save(path, two, 2, {2});
  save(path, three, 3, {2});
  CHECK(names_in_folder(path) ==
        std::set<std::string>{"manifest.json", "manifest-2.json", "model-2.safetensors",
                              "optimizer-2.safetensors", "model-3.safetensors",
                              "optimizer-3.safetensors"});
  CHECK(manifests_of(path) == std::vector<std::string>{"manifest.json", "manifest-2.json"});
  CHECK(find_intact(path).news.empty());
  CHECK(Checkpoint(path, "manifest-2.json").step() == 2);

  overwrite(path / "optimizer-3.safetensors", fs::file_size(path / "optimizer-3.safetensors") - 9,
            "x");
  const IntactCheckpoint found = find_intact(path);
  CHECK(found.manifest == "manifest-2.json");
  CHECK_THAT(found.news, Contains("warning: ") && Contains(".safetensors: tensor ") &&
                             Contains("the checkpoint before it, of update 2, is used instead"));

  SECTION("the damaged one does not stay when the run saves again") {
    save(path, {4, "a"}, 4, {2, 2});
    CHECK(manifests_of(path) == std::vector<std::string>{"manifest.json", "manifest-2.json"});
    CHECK_FALSE(fs::exists(path / "model-3.safetensors"));
  }
  SECTION("nor when it saves at the same update") {
    save(path, three, 3, {3, 2});
    CHECK(find_intact(path).news.empty());
    CHECK(manifests_of(path) == std::vector<std::string>{"manifest.json", "manifest-2.json"});
    CHECK_FALSE(fs::exists(path / "model-3.safetensors"));
  }
  SECTION("those of another run go") {
    save(path, {4, "b"}, 4, {3, -1});
    CHECK(names_in_folder(path).size() == 3);
  }
  SECTION("if all are damaged, the newest one's error is the answer") {
    fs::resize_file(path / "model-2.safetensors", 100);
    CHECK_THROWS_WITH(find_intact(path), Contains(".safetensors: tensor "));
  }
  SECTION("a manifest that is damaged, too") {
    overwrite(path / "manifest.json", 3, "x");
    CHECK(find_intact(path).manifest == "manifest-2.json");
    save(path, {5, "a"}, 4, {2, 2});
    CHECK(names_in_folder(path).size() == 6);
  }
}

TEST_CASE("a save touches nothing that is not a checkpoint's", "[checkpoint]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path;
  save(path, 1, 1);
  fs::copy_file(path / "model-1.safetensors", path / "backup-7.safetensors");
  write_file(path / "llama-7.safetensors", "mine");
  const fs::path precious = path / "precious";
  write_file(precious, "mine");
  fs::copy_file(path / "manifest.json", path / "manifest-100.json");  // pins what it names
  const ParameterList& list = small_network().parameters();
  write_checkpoint_file(path, "model", 8, list,
                        {{"", zeros({list.numel()}, DType::f32, cpu_device())}});
  for (const char* name : {"manifest-7.json", "manifest-8.json"}) write_file(path / name, "{}");
  const std::string manifest = text("manifest.json", partial);
  for (const std::string& name : {text("model-2.safetensors", partial), manifest,
                                  text(manifest, partial), std::string("optimizer-2.safetensors")})
    fs::create_symlink(precious, path / name);
  const std::set<std::string> theirs{"model-2.safetensors.tmp", "model-2.safetensors.partial",
                                     "manifest.json.new", "manifest.json.partial"};
  for (const std::string& name : theirs) write_file(path / name, "mine");
  save(path, 2, 2);
  CHECK(error_of(path).empty());
  CHECK(read_file(precious) == "mine");
  for (const std::string& name : theirs) CHECK(read_file(path / name) == "mine");
  for (const std::string& name : theirs) fs::remove(path / name);
  CHECK(names_in_folder(path) ==
        std::set<std::string>{"manifest.json", "model-2.safetensors", "optimizer-2.safetensors",
                              "backup-7.safetensors", "llama-7.safetensors", "precious",
                              "manifest-100.json", "model-1.safetensors", "optimizer-1.safetensors",
                              "manifest-7.json", "manifest-8.json", "model-8.safetensors"});
  const std::string before = read_file(path / "model-8.safetensors");
  save(path, 8, 3);
  CHECK(error_of(path).empty());
  CHECK(read_file(path / "model-8.safetensors") == before);
}

TEST_CASE("a file that is not where the checkpoint is, or is another, is not committed",
          "[checkpoint]") {
  const TemporaryFolder folder, elsewhere;
  const fs::path path = folder.path;
  save(path, 1, 1);
  const ParameterList& list = small_network().parameters();
  const Tensor weights = zeros({list.numel()}, DType::f32, cpu_device());
  auto refuse = [&](const CheckpointFile& file, const char* why) {
    CHECK_THROWS_WITH(commit_checkpoint(path, 2, json(), {file}), Contains(why));
    CHECK(Checkpoint(path).step() == 1);
    CHECK(error_of(path).empty());
    CHECK_FALSE(fs::exists(path / file.name));  // it would only take space
  };
  refuse(
      write_checkpoint_file(elsewhere.path, "model", 2, list, {{"", weights}}),
      "lacks model-2.safetensors, which a rank has written: it was removed, or the hosts do not");
  CheckpointFile file = write_checkpoint_file(path, "model", 2, list, {{"", weights}});
  overwrite(path / file.name, static_cast<std::size_t>(file.bytes) - 1, "x");
  refuse(file, "has the checksum ");
  file = write_checkpoint_file(path, "model", 2, list, {{"", weights}});
  file.bytes += 1;
  refuse(file, " bytes, its writer says ");
  file = write_checkpoint_file(path, "model", 2, list, {{"", weights}});
  file.failure = "model-2.safetensors: can't be written: No space left on device";
  refuse(file, "No space left on device");
}

TEST_CASE("a file that is far larger than any manifest is not read as one", "[checkpoint]") {
  const TemporaryFolder folder;
  save(folder.path, 1, 1);
  fs::resize_file(folder.path / "manifest.json", 300 << 20);  // it takes no room on the disk
  CHECK_THAT(error_of(folder.path),
             Contains("manifest.json has 314572800 bytes, and files of its kind"));
}

TEST_CASE("a checkpoint of a newer format is not passed over for an older one", "[checkpoint]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path, manifest = path / "manifest.json";
  save(path, {1, "run"}, 1, {.count = 2, .last = 2});
  save(path, {2, "run"}, 2, {.count = 2, .last = 2});
  REQUIRE(manifests_of(path).size() == 2);
  json changed = json::parse(read_file(manifest));
  changed["version"] = 3;
  write_file(manifest, plangrad::tests::signed_manifest(changed));
  CHECK_THROWS_AS(find_intact(path), NewerFormat);
  changed["version"] = "3";  // which none writes
  write_file(manifest, plangrad::tests::signed_manifest(changed));
  CHECK(find_intact(path).manifest == "manifest-1.json");
}

TEST_CASE("a checkpoint that can't be opened is not passed over for an older one", "[checkpoint]") {
  /// Whom permissions stop: not root.
  struct Nobody {
    const bool was_root = ::geteuid() == 0;
    Nobody() { is_one = !was_root || ::seteuid(65534) == 0; }
    ~Nobody() {
      if (was_root) std::ignore = ::seteuid(0);
    }
    bool is_one;
  };
  const TemporaryFolder folder;
  const fs::path path = folder.path;
  save(path, {1, "run"}, 1, {.count = 2, .last = 2});
  save(path, {2, "run"}, 2, {.count = 2, .last = 2});
  fs::permissions(path, fs::perms(0755));
  for (const char* file : {"manifest.json", "model-2.safetensors"}) {
    INFO(file);
    fs::permissions(path / file, fs::perms::none);
    std::string message;
    bool is_seen = false;
    {
      const Nobody nobody;
      std::error_code ignored;
      is_seen = nobody.is_one && fs::exists(path / file, ignored);
      message = plangrad::tests::error_of([&] { find_intact(path); });
    }
    fs::permissions(path / file, fs::perms(0644));
    if (!is_seen) SKIP_TEST("no other user may search " << path.parent_path());
    CHECK_THAT(message, Contains(file) && Contains("manifest.json away") &&
                            Contains("no older one is used: make it readable, or move "));
  }
  CHECK(find_intact(path).manifest == "manifest.json");
}

TEST_CASE("a checkpoint is found whole while a run saves beside it", "[checkpoint]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path;
  save(path, {1, "a"}, 1);
  std::jthread neighbour([&](const std::stop_token& over) {
    for (int step = 2; !over.stop_requested(); ++step) save(path, {step, "a"}, step);
  });
  std::int64_t last = 0;
  for (int tries = 0; tries < 50 || last == 1; ++tries) {  // the neighbour may be slow to begin
    const IntactCheckpoint found = find_intact(path);
    CHECK(found.news.empty());
    CHECK(found.checkpoint->step() >= last);
    last = found.checkpoint->step();
    CHECK_NOTHROW(found.checkpoint->verify());  // its files may be gone by now
  }
  CHECK(last > 1);
}

TEST_CASE("a save does not replace a newer update of its run", "[checkpoint]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path;
  save(path, {5, "a"}, 5);
  CHECK_THROWS_WITH(save(path, {4, "a"}, 4, {2}), Contains("has update 5 of this run by now") &&
                                                      Contains("update 4 does not replace it"));
  CHECK(names_in_folder(path).size() == 3);
  CHECK(Checkpoint(path).step() == 5);
  save(path, {4, "a"}, 4, {.count = 2, .last = 3, .given_up = 5});
  CHECK(Checkpoint(path).step() == 4);
  save(path, {1, "b"}, 1);  // of another run
  CHECK(Checkpoint(path).run_id() == "b");
}

TEST_CASE("an older checkpoint is found by its update", "[checkpoint]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path;
  for (int step : {1, 2, 3}) save(path, {step, "a"}, step, {3});
  for (int step : {1, 2, 3}) CHECK(find_intact(path, step).checkpoint->step() == step);
  CHECK_THROWS_WITH(find_intact(path, 4),
                    Contains("has no checkpoint of update 4; checkpoint list"));
}

TEST_CASE("an opened checkpoint lasts until it is closed", "[checkpoint]") {
  const TemporaryFolder folder;
  save(folder.path, {1, "a"}, 1);
  OpenedCheckpoint opened(find_intact(folder.path).checkpoint);
  fs::remove_all(folder.path);
  CHECK_NOTHROW(opened.get()->verify());
  opened.close();
  CHECK(opened.manifest().step == 1);
  CHECK_THROWS_WITH(opened.get(), Contains("the checkpoint of update 1 is closed"));
}
