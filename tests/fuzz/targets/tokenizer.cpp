// tokenizer.json and what a folder adds to it, with a text that goes through it.
// Not here: GPT-2's two files (vocabulary.cpp).
#include <nlohmann/json.hpp>

#include "nn/text/byte_pair.h"
#include "nn/text/vocabulary.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace nn;
using nlohmann::json;

std::vector<std::string> seeds() {
  const std::filesystem::path path = folder() / "seed";
  std::filesystem::create_directories(path);
  const std::vector<std::string> tokens{"a", "b", "c", "Ġ", "Ċ", "ab", "Ġab", "<|endoftext|>"};
  write_tokenizer(BytePairVocabulary(tokens, {"a b", "Ġ ab"}), path, 8);
  const json plain = json::parse(read(path / "tokenizer.json"));
  json flags = plain, pairs = plain;
  for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized"})
    flags["added_tokens"].push_back({{"id", flags["added_tokens"].size() + 7},
                                     {"content", text("<", flag[0], ">")},
                                     {flag, true}});
  pairs["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"Ġ", "ab"})});
  pairs["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {pairs["pre_tokenizer"]}}};
  const std::string config =
      R"({"added_tokens_decoder":{"8":{"content":"<p>","lstrip":false,"special":true}}})";
  const std::string words = "ab <l>\n<r>   <s> a <n>ab<|endoftext|>";
  return {joined({words, flags.dump(), "{}"}), joined({"ab c<p>", pairs.dump(), config}),
          joined({"cab", plain.dump(), R"({"add_prefix_space":false})"})};
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 3);
  write("tokenizer/tokenizer.json", files[1]);
  write("tokenizer/tokenizer_config.json", files[2]);
  const std::unique_ptr<Vocabulary> vocabulary = read_tokenizer(folder() / "tokenizer");
  const json saved = vocabulary->to_json();
  must(load_vocabulary(saved)->to_json() == saved, "a vocabulary is not read back");
  const std::vector<std::int32_t> ids = vocabulary->encode(files[0]);
  must(load_vocabulary(saved)->encode(files[0]) == ids, "a saved vocabulary encodes otherwise");
  const std::string back = vocabulary->decode(ids);
  must(saved.contains("added") || back == files[0], "a text is not decoded");
}

}  // namespace plangrad::fuzz
