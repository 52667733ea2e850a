// From a text to a model that goes on with it: characters, byte pairs and token ids.
#include "tests/examples/programs.h"

using namespace plangrad::tests;

namespace {

const Words quick{"--width",  "32", "--steps", "80", "--learning-rate", "0.01",
                  "--warmup", "5",  "--batch", "8",  "--quiet"};

Finished sample(const std::string& from, const std::string& prompt, const Words& more = {}) {
  return run(Words{"sample_gpt", "--from", from, "--prompt", prompt, "--tokens", "12"} + more);
}

/// What sample_gpt prints, without the prompt and the end of the line.
std::string goes_on(const std::string& from, const std::string& prompt, const Words& more) {
  Finished result = succeeded(sample(from, prompt, more));
  REQUIRE(result.output.starts_with(prompt));
  REQUIRE(result.output.ends_with('\n'));
  return result.output.substr(prompt.size(), result.output.size() - prompt.size() - 1);
}

void train(const Words& command) { succeeded(run(command + Words{"--overwrite"})); }

}  // namespace

TEST_CASE("a model learns a pattern and goes on with it") {
  Folder folder;
  const std::string data = folder.write("abc.txt", repeat("abc", 200)), out = folder / "out";
  for (const std::string dtype : {"f32", "bf16"}) {
    CAPTURE(dtype);
    train(tiny_run(data, out, quick + Words{"--dtype", dtype}));
    CHECK(summary_of(out)["validation_loss"] < 0.1);
    // The prompt is shorter than the context, and later longer.
    CHECK(goes_on(out, "ca", {"--temperature", "0"}) == "bcabcabcabca");
    CHECK(goes_on(out, "abcabcabcabcab", {"--temperature", "0"}) == "cabcabcabcab");
  }
}

TEST_CASE("sampling: the seed decides, and top-k 1 is the likeliest") {
  Folder folder;
  const std::string data = folder.write("letters.txt", repeat("the cat sat; ", 50));
  const std::string out = folder / "out";
  train(tiny_run(data, out));  // so short a run that all is nearly as likely
  const Words hot{"--temperature", "2"};
  const std::string one = goes_on(out, "the", hot + Words{"--seed", "1"});
  CHECK(one == goes_on(out, "the", hot + Words{"--seed", "1"}));
  CHECK(one != goes_on(out, "the", hot + Words{"--seed", "2"}));
  const std::string likeliest = goes_on(out, "the", {"--temperature", "0"});
  CHECK(likeliest.size() == 12);
  CHECK(likeliest != one);
  CHECK(likeliest == goes_on(out, "the", hot + Words{"--top-k", "1"}));
}

TEST_CASE("sample_gpt refuses what it can't go on from") {
  Folder folder;
  const std::string data = folder.write("letters.txt", repeat("abc", 100)), out = folder / "out";
  train(tiny_run(data, out));
  check_failed(sample(folder / "none", "a"), "holds no checkpoint");
  check_failed(sample(out, ""), "--prompt is empty");
  check_failed(sample(out, "abd"), "character U+0064 'd' at byte 2 is not among the 3 characters");
  check_failed(sample(out, "\xff"), "not valid UTF-8");

  std::filesystem::resize_file(out + "/checkpoint/model-6.safetensors", 1000);
  check_failed(sample(out, "a"), "is damaged");
}

TEST_CASE("a byte-pair vocabulary is trained, trained with and written with") {
  Folder folder;
  const std::string data = folder.write("song.txt", repeat("row row row your boat\n", 40));
  const std::string vocabulary = folder / "vocabulary", out = folder / "out";
  Finished made = run({"train_vocabulary", "--data", data, "--size", "262", "--out", vocabulary});
  CHECK(made.status == 0);
  CHECK_THAT(made.output, Contains("262 tokens in " + vocabulary + "/vocab.json"));

  train(tiny_run(data, out, quick + Words{"--vocab", vocabulary + "/vocab.json"}));
  CHECK(summary_of(out)["config"]["model"]["vocabulary"] == 262);
  // The run keeps the vocabulary: it writes without the files.
  std::filesystem::remove_all(vocabulary);
  CHECK_THAT(goes_on(out, "row row row your boat\nrow", {"--temperature", "0"}),
             Contains(" row row your boat\nrow"));
}

TEST_CASE("train_vocabulary refuses what it can't learn from or write to") {
  Folder folder;
  const std::string data = folder.write("text.txt", "some more, some less"),
                    out = folder / "vocabulary";
  auto make = [&](const std::string& text, const std::string& to) {
    return run({"train_vocabulary", "--data", text, "--size", "258", "--out", to});
  };
  check_failed(make(folder / "none.txt", out), "no file ");
  check_failed(make(folder.write("empty.txt", ""), out), "is empty");
  check_failed(make(data, data + "/below"), data, 1, 1);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("token ids of a .bin file train with a vocabulary or without") {
  Folder folder;
  std::string ids;  // nanoGPT's: little-endian uint16
  for (char c : repeat("abc", 200)) ids += {c, '\0'};
  const std::string data = folder.write("ids.bin", ids), out = folder / "out";

  train(tiny_run(data, out, quick));
  CHECK(summary_of(out)["config"]["model"]["vocabulary"] == 'c' + 1);
  CHECK(summary_of(out)["validation_loss"] < 0.1);
  check_failed(sample(out, "a"), "trained on token ids without a vocabulary");

  train(tiny_run(data, out, quick + Words{"--vocab", "bytes"}));
  CHECK(summary_of(out)["config"]["model"]["vocabulary"] == 256);
  CHECK(goes_on(out, "ab", {"--temperature", "0"}) == "cabcabcabcab");
}
