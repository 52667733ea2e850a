// Vocabularies: vocab.json with merges.txt, or tokenizer.json; and a text that goes through one.
#include <nlohmann/json.hpp>

#include "nn/text/byte_pair.h"
#include "nn/text/vocabulary.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace nn;

namespace {

BytePairVocabulary small_pairs() {
  std::vector<std::string> tokens(byte_symbols().begin(), byte_symbols().end());
  for (const char* token : {"th", "the", "Ġthe", "<|endoftext|>"}) tokens.emplace_back(token);
  return {tokens, {"t h", "th e", "Ġ the"}};
}

}  // namespace

std::vector<std::string> seeds() {
  const std::filesystem::path path = folder() / "seed";
  std::filesystem::create_directories(path);
  const std::string text = "the theme\n<|endoftext|>\xff of the é";
  write_tokenizer(small_pairs(), path, 8);
  std::vector<std::string> all{joined({text, read(path / "vocab.json"), read(path / "merges.txt")}),
                               joined({text, "", "", read(path / "tokenizer.json")})};
  write_tokenizer(CharVocabulary("abé"), path, 8);
  all.push_back(joined({"abé", "", "", read(path / "tokenizer.json")}));
  return all;
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 4);
  const char* names[] = {"vocab.json", "merges.txt", "tokenizer.json"};
  for (int i = 0; i < 3; ++i) write(std::string("tokenizer/") + names[i], files[i + 1]);
  const std::unique_ptr<Vocabulary> vocabulary = read_tokenizer(folder() / "tokenizer");
  must(load_vocabulary(vocabulary->to_json())->to_json() == vocabulary->to_json(),
       "a vocabulary is not read back from a checkpoint");
  must(vocabulary->decode(vocabulary->encode(files[0])) == files[0], "a text is not decoded");
}

}  // namespace plangrad::fuzz
