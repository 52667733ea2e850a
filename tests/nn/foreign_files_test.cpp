// Files that somebody else may have made: what is no file, and JSON that nests without end.
// Not here: the formats, whose tests damage their own files, and random damage (tests/fuzz).
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/gpt_files.h"
#include "nn/data/image_data.h"
#include "nn/models/gpt.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using plangrad::tests::TemporaryFolder;

namespace {

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("pipes and devices are no files to read", "[foreign]") {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const auto refusal = Contains(path + " is a pipe or a device");
    CHECK_THROWS_WITH(read_file(path), refusal);
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
}

TEST_CASE("numbers that are not whole are no ids and no sizes", "[foreign]") {
  CHECK(whole_number(7) == 7);
  for (const char* text : {"1e300", "1.5", "\"1\"", "null", "[1]"})
    CHECK_THROWS_WITH(whole_number(parse_json(text)), Contains("expected a whole number, got "));
  nlohmann::json saved = to_json(GptConfig());
  saved["layers"] = 1e300;
  CHECK_THROWS_WITH(gpt_config(saved), Contains("layers is 1e+300, expected a whole number"));
}

TEST_CASE("a file of many tensors is opened in no time", "[foreign]") {
  const TemporaryFolder folder;
  constexpr int count = 100'000;
  std::string header = "{";
  for (int i = 0; i < count; ++i)
    header += text(i == 0 ? "" : ",", R"("t)", i, R"(":{"dtype":"U8","shape":[1],"data_offsets":[)",
                   i, ",", i + 1, "]}");
  header += "}";
  const std::uint64_t length = header.size();
  const std::string size(reinterpret_cast<const char*>(&length), sizeof length);
  const std::filesystem::path path = folder.path / "many.safetensors";
  write_file(path, size + header + std::string(count, 'x'));
  CHECK(SafetensorsFile(path.string()).entries().size() == count);
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
  write_file(folder.path / "model.safetensors", std::string(1000, ' '));
  CHECK_THROWS_WITH(refusal()(), Contains("model.safetensors has 1000 bytes, too few for the "));
  config["n_layer"] = 1 << 20;
  CHECK_THROWS_WITH(refusal()(), Contains("the layers are at most 4096"));
}

TEST_CASE("thousands of layers are counted in no time", "[foreign]") {
  GptConfig config{4096, 1, 2, 2, 3, 0, true};
  CHECK(whole_parameters(gpt(config)).size() == 12 * 4096 + 4);
}
