// Vocabularies in Hugging Face's files: what is written is read back alike, and what plangrad would
// encode differently is refused. Not here: Hugging Face's own reader (references/exported.py).
#include "nn/text/vocabulary.h"

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "nn/text/byte_pair.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

namespace {

struct TokenizerFolder : plangrad::tests::TemporaryFolder {
  TokenizerFolder() { make_folder(path); }
  json tokenizer() const { return json::parse(read_file(path / "tokenizer.json")); }
  void write(const json& all) const { write_file(path / "tokenizer.json", all.dump()); }
};

/// Byte pairs that join "th" and "the", with or without the token between documents.
BytePairVocabulary small_pairs(bool separator) {
  std::vector<std::string> tokens(byte_symbols().begin(), byte_symbols().end());
  tokens.insert(tokens.end(), {"th", "the"});
  if (separator) tokens.emplace_back(end_of_text);
  return {tokens, {"t h", "th e"}};
}

const std::string sentence = "the thé, then\n\n<|endoftext|> é 😀 \t1";

}  // namespace

TEST_CASE("byte pairs are read back from GPT-2's files, and from tokenizer.json alone") {
  for (bool separator : {false, true}) {
    const TokenizerFolder folder;
    const BytePairVocabulary vocabulary = small_pairs(separator);
    write_tokenizer(vocabulary, folder.path, 16);
    const Tokens expected = vocabulary.encode(sentence);
    CHECK(read_tokenizer(folder.path)->encode(sentence) == expected);
    std::filesystem::remove(folder.path / "vocab.json");
    const auto alone = read_tokenizer(folder.path);
    CHECK(alone->encode(sentence) == expected);
    CHECK(alone->to_json() == vocabulary.to_json());
    const json config = json::parse(read_file(folder.path / "tokenizer_config.json"));
    CHECK(config["model_max_length"] == 16);
    CHECK(config.contains("eos_token") == separator);
    CHECK(folder.tokenizer()["added_tokens"].size() == (separator ? 1 : 0));
  }
}

TEST_CASE("merges are read as texts and as pairs, and added tokens get their ids") {
  const TokenizerFolder folder;
  write_tokenizer(small_pairs(true), folder.path, 16);
  json all = folder.tokenizer();
  all["model"]["merges"] = json::array({json::array({"t", "h"}), json::array({"th", "e"})});
  all["model"]["vocab"].erase(std::string(end_of_text));  // it is an added token alone then
  folder.write(all);
  CHECK(read_tokenizer_json(folder.path / "tokenizer.json")->encode(sentence) ==
        small_pairs(true).encode(sentence));
}

TEST_CASE("characters and bytes are read back") {
  const TokenizerFolder folder;
  const CharVocabulary characters("wörld\n\\ \"😀");
  write_tokenizer(characters, folder.path, 8);
  CHECK_FALSE(std::filesystem::exists(folder.path / "vocab.json"));
  const auto same = read_tokenizer(folder.path);
  CHECK(same->to_json() == characters.to_json());
  CHECK(same->encode("dröw\n") == characters.encode("dröw\n"));

  write_tokenizer(ByteVocabulary(), folder.path, 8);
  const auto bytes = read_tokenizer(folder.path);
  const Tokens ids = bytes->encode("a\xff the é");
  CHECK(bytes->size() == 256);
  CHECK(ids == ByteVocabulary().encode("a\xff the é"));
}

TEST_CASE("a tokenizer that plangrad would not follow is refused by what differs") {
  const TokenizerFolder folder;
  CHECK_THROWS_WITH(read_tokenizer(folder.path),
                    Contains("neither vocab.json with merges.txt nor"));
  write_tokenizer(small_pairs(true), folder.path, 16);
  const json good = folder.tokenizer();
  auto check_refused = [&](const json& change, const std::string& part) {
    json all = good;
    all.merge_patch(change);
    folder.write(all);
    CHECK_THROWS_WITH(read_tokenizer_json(folder.path / "tokenizer.json"), Contains(part));
  };
  check_refused({{"model", {{"type", "Unigram"}}}}, "its model is Unigram");
  check_refused({{"pre_tokenizer", {{"type", "Metaspace"}}}}, "its pre_tokenizer is");
  check_refused({{"pre_tokenizer", {{"add_prefix_space", true}}}}, "add_prefix_space is true");
  check_refused({{"pre_tokenizer", {{"use_regex", false}}}}, "use_regex is false");
  check_refused({{"normalizer", {{"type", "NFC"}}}}, "normalizer is");
  check_refused({{"model", {{"byte_fallback", true}}}}, "byte_fallback is true");
  check_refused({{"model", {{"vocab", {{"the", 300}}}}}}, "no token has id 257");
  check_refused({{"model", {{"vocab", {{"the", 3}}}}}}, "both have id 3");
  check_refused({{"model", {{"type", "WordLevel"}}}}, "is not one character");
  json swapped{{"model", {{"type", "WordLevel"}, {"vocab", {{"b", 0}, {"a", 1}}}}}};
  folder.write(swapped);
  CHECK_THROWS_WITH(read_tokenizer_json(folder.path / "tokenizer.json"),
                    Contains("in the order of their code points"));
  write_file(folder.path / "tokenizer.json", "{");
  CHECK_THROWS_WITH(read_tokenizer_json(folder.path / "tokenizer.json"),
                    Contains("can't be read as a tokenizer"));
}
