// Files that somebody else may have made: what is no file, and JSON that nests without end.
// Not here: the formats, whose tests damage their own files, and random damage (tests/fuzz).
#include <sys/resource.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/checkpoint/safetensors.h"
#include "nn/data/image_data.h"
#include "nn/models/gpt.h"
#include "nn/text/vocabulary.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::TemporaryFolder;

namespace {

/// The most memory that this process has had, in bytes.
std::int64_t peak_memory() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("pipes and devices are no files to read", "[foreign]") {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const auto refusal = Contains(path + " is a pipe or a device");
    CHECK_THROWS_WITH(read_file(path), refusal);
    CHECK_THROWS_WITH(sync_to_disk(path), Contains("can't be written to disk"));
    CHECK_THROWS_WITH(SafetensorsFile(path), refusal);
    CHECK_THROWS_WITH(read_idx_images(path), refusal);
  }
  std::filesystem::rename(pipe, folder.path / "manifest.json");
  CHECK_THROWS_WITH(Checkpoint(folder.path), Contains("is a pipe or a device"));
}

TEST_CASE("JSON that is nested without end is refused before anybody copies it", "[foreign]") {
  CHECK(parse_json(nested(90)).dump() == nested(90));
  CHECK(parse_json("[\"\\\"" + nested(200) + "\"]").size() == 1);  // brackets of a string
  const auto refusal = Contains("nested more than 100 deep");
  CHECK_THROWS_WITH(parse_json(nested(110)), refusal);
  const TemporaryFolder folder;
  const std::string deep = nested(300'000);
  write_file(folder.path / "manifest.json", R"({"format": "plangrad checkpoint", "version": 1,)"
                                            R"("step": 1, "files": [], "run": )" +
                                                deep + "}");
  CHECK_THROWS_WITH(Checkpoint(folder.path), refusal);
  write_file(folder.path / "config.json", deep);
  CHECK_THROWS_WITH(read_gpt_config(folder.path), refusal);
  CHECK_THROWS_WITH(read_json(folder.path / "config.json"),
                    refusal && Contains((folder.path / "config.json").string()));
}

TEST_CASE("a manifest lists at most 100,000 files, and a vocabulary a million tokens",
          "[foreign]") {
  const TemporaryFolder folder;
  std::string files = R"({"name": "a.safetensors", "bytes": 10})";
  for (int i = 0; i < 17; ++i) files += "," + files;
  write_file(folder.path / "manifest.json", R"({"format": "plangrad checkpoint", "version": 1,)"
                                            R"("step": 1, "run": {}, "files": [)" +
                                                files + "]}");
  CHECK_THROWS_WITH(Checkpoint(folder.path), Contains("it lists more than 100000 files"));
  std::string tokens = "{\"a\":0", merges;
  for (int i = 1; i <= 1 << 20; ++i) {
    tokens += text(",\"", i, "\":", i);
    merges += "a b\n";
  }
  write_file(folder.path / "vocab.json", R"({"a":0})");
  write_file(folder.path / "merges.txt", merges + "a b\n");
  CHECK_THROWS_WITH(read_tokenizer(folder.path), Contains("more than 1048576 merges"));
  write_file(folder.path / "merges.txt", "a b\n");
  write_file(folder.path / "vocab.json", tokens + "}");
  CHECK_THROWS_WITH(read_tokenizer(folder.path), Contains("more than 1048576 tokens"));
}

TEST_CASE("numbers that are not whole are no ids and no sizes", "[foreign]") {
  CHECK(whole_number(7) == 7);
  for (const char* text : {"1e300", "1.5", "\"1\"", "null", "[1]"})
    CHECK_THROWS_WITH(whole_number(parse_json(text)), Contains("expected a whole number, got "));
  nlohmann::json saved = to_json(GptConfig());
  saved["layers"] = 1e300;
  CHECK_THROWS_WITH(gpt_config(saved), Contains("layers is 1e+300, expected a whole number"));
}

TEST_CASE("a GPT's JSON has its keys and no others, and sizes that fit", "[foreign]") {
  const nlohmann::json good = to_json(GptConfig{.layers = 3, .dropout = 0.5, .tied = false});
  CHECK(to_json(gpt_config(good)) == good);
  const auto check = [&](const std::string& key, const nlohmann::json& value,
                         const std::string& refusal) {
    nlohmann::json saved = good;
    saved[key] = value;
    CHECK_THROWS_WITH(gpt_config(saved),
                      Contains(refusal) && Contains("layers, heads, width, context, vocabulary"));
  };
  check("layers", 4'294'967'308, "layers is 4294967308, expected a whole number from 1 to ");
  check("vocabulary", -5, "vocabulary is -5, expected a whole number from 1 to ");
  check("experts", 8, "experts is no key");
  check("dropout", "x", "dropout is \"x\", expected a value like 0.0");
  check("tied", 1, "tied is 1, expected a value like true");
  nlohmann::json few = good;
  few.erase("dropout");
  few.erase("tied");
  CHECK(gpt_config(few).dropout == 0);
  CHECK(gpt_config(few).tied);
  few.erase("heads");
  CHECK_THROWS_WITH(gpt_config(few), Contains("heads is missing"));
  CHECK_THROWS_WITH(gpt_config(nlohmann::json::array()), Contains("expected an object"));
}

TEST_CASE("a file of many tensors is opened in no time, and one of more is refused", "[foreign]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "many.safetensors";
  const auto write = [&](int count) {
    std::string header = "{";
    for (int i = 0; i < count; ++i)
      header += text(i == 0 ? "" : ",", R"("t)", i,
                     R"(":{"dtype":"U8","shape":[1],"data_offsets":[)", i, ",", i + 1, "]}");
    header += "}";
    const std::uint64_t length = header.size();
    const std::string size(reinterpret_cast<const char*>(&length), sizeof length);
    write_file(path, size + header + std::string(count, 'x'));
  };
  write(100'000);
  CHECK(SafetensorsFile(path.string()).entries().size() == 100'000);
  write((1 << 18) + 1);
  CHECK_THROWS_WITH(SafetensorsFile(path.string()), Contains("more than 262144 tensors"));
}

TEST_CASE("a header of lists without end takes no more memory than its text", "[foreign]") {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "lists.safetensors").string();
  auto refusal = [&](const std::string& begin, const std::string& part, const std::string& end) {
    std::string header = begin;
    while (header.size() < (20 << 20)) header += part;
    header += end;
    const std::uint64_t length = header.size();
    write_file(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
    const std::int64_t before = peak_memory();
    const std::string message =
        plangrad::tests::error_of([&] { const SafetensorsFile file(path); });
    CHECK(peak_memory() - before < (300 << 20));
    return message;
  };
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"note":[)", "[],", "[]]}}")
            .empty());
  CHECK_THAT(refusal(R"({"a":{"dtype":"U8","shape":[)", "0,", "0]}}"),
             Contains("shape has more than 64 numbers"));
}

TEST_CASE("a file that is too large for its kind is refused before it is read", "[foreign]") {
  const TemporaryFolder folder;
  auto sparse = [&](const char* name) {
    write_file(folder.path / name, "{");
    std::filesystem::resize_file(folder.path / name, 10'000'000'000);
  };
  const auto refused = Contains("has 10000000000 bytes, and files of its kind have at most");
  const std::int64_t before = peak_memory();
  sparse("config.json");
  CHECK_THROWS_WITH(read_gpt_config(folder.path), refused);
  sparse("manifest.json");
  CHECK_THROWS_WITH(Checkpoint(folder.path), refused);
  CHECK_THROWS_WITH(find_intact(folder.path), refused);
  for (const char* name : {"merges.txt", "vocab.json", "tokenizer.json"}) {
    sparse(name);
    if (std::filesystem::exists(folder.path / "vocab.json"))
      CHECK_THROWS_WITH(read_tokenizer(folder.path), refused);
  }
  CHECK(peak_memory() - before < (100 << 20));
  std::string lists = "[";
  while (lists.size() < (16 << 20)) lists += "[],";
  CHECK_THROWS_WITH(parse_json(lists + "[]]"), Contains("more than 4000000 values"));
}

TEST_CASE("a file that shrinks while it is read is named", "[foreign]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "text";
  write_file(path, std::string(10'000, 'x'));
  const OpenFile file(path);
  std::filesystem::resize_file(path, 5'000);
  std::vector<std::byte> bytes(10'000);
  file.read(0, std::span(bytes).first(5'000));
  CHECK_THROWS_WITH(file.read(0, bytes), Contains(path.string() + " is cut short") &&
                                             Contains("to 5000 of 10000 bytes"));
  write_file(path, "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n");
  CHECK_THROWS_WITH(read_file(path), Contains("git lfs pull"));
}

TEST_CASE("a config that asks for more than the file of weights holds builds nothing",
          "[foreign]") {
  const TemporaryFolder folder;
  nlohmann::json config{
      {"n_layer", 4000}, {"n_head", 1}, {"n_embd", 64}, {"n_positions", 8}, {"vocab_size", 100}};
  const auto refusal = [&] {
    write_file(folder.path / "config.json", config.dump());
    return [&] { read_gpt_config(folder.path); };
  };
  CHECK_THROWS_WITH(refusal()(), Contains("there is no file"));
  write_safetensors((folder.path / "model.safetensors").string(), {}, {});
  CHECK_THROWS_WITH(refusal()(), Contains("too few for the 199943040 parameters"));
  config["n_layer"] = 1 << 20;
  CHECK_THROWS_WITH(refusal()(), Contains("the layers are at most 4096"));
}

TEST_CASE("thousands of layers are counted in no time", "[foreign]") {
  GptConfig config{4096, 1, 2, 2, 3, 0, true};
  CHECK(whole_parameters(gpt(config)).size() == 12 * 4096 + 4);
}
