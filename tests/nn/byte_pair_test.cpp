// Byte pairs: ids and merges are those of the tokenizers package, any bytes come back, and broken
// files are refused. References: tests/references/byte_pair.
#include "nn/text/byte_pair.h"

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/folders.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
namespace fs = std::filesystem;

namespace {

const fs::path references = plangrad::tests::clone_path("tests/references/byte_pair");

BytePairVocabulary reference() { return read_byte_pairs(references / "vocab.json"); }

/// A folder of this test alone, removed with everything in it.
using plangrad::tests::TemporaryFolder;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> all;
  split_words(text, [&](std::string_view word) { all.emplace_back(word); });
  return all;
}

std::string every_byte() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  return all;
}

std::string repeat(const std::string& part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

}  // namespace

TEST_CASE("byte pairs: the ids are those of the tokenizers package") {
  auto vocabulary = reference();
  auto expected = nlohmann::json::parse(read_file(references / "expected.json"));
  REQUIRE(expected["cases"].size() == 50);
  for (const auto& c : expected["cases"]) {
    auto text = c["text"].get<std::string>();
    auto ids = c["ids"].get<std::vector<std::int32_t>>();
    CAPTURE(text);
    CHECK(vocabulary.encode(text) == ids);
    CHECK(vocabulary.decode(ids) == text);
  }
}

TEST_CASE("byte pairs: bytes are spelled as in GPT-2's files") {
  const auto& symbols = byte_symbols();
  CHECK(symbols['A'] == "A");
  CHECK(symbols[' '] == "Ġ");
  CHECK(symbols['\n'] == "Ċ");
  CHECK(symbols[0xC3] == "Ã");
  CHECK(symbols[0xAD] == "Ń");  // the last of those that move up
}

TEST_CASE("byte pairs: text is cut into words by GPT-2's pattern") {
  using Words = std::vector<std::string>;
  CHECK(words("I'm  here,\n\n you'll see 42!") ==
        Words{"I", "'m", " ", " here", ",", "\n\n", " you", "'ll", " see", " 42", "!"});
  CHECK(words("a\xff\xfe b") == Words{"a", "\xff\xfe", " b"});
}

TEST_CASE("byte pairs: any bytes come back, valid UTF-8 or not") {
  auto vocabulary = reference();
  std::string bytes = every_byte();
  for (const std::string& text :
       {bytes, std::string(bytes.rbegin(), bytes.rend()), std::string("caf\xc3"),
        std::string("\xe5\xb7 the \xf0\x9f\x98"), std::string("a\0b", 3)}) {
    CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  }
}

TEST_CASE("byte pairs: very long words and runs are encoded whole") {
  auto vocabulary = reference();
  for (const char* part :
       {"a", "the", " ", "\n", "-", "7", "川", "\xff", "the river's 12 ... \n"}) {
    std::string text = repeat(part, 300000);
    CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  }
}

TEST_CASE("byte pairs: without an end-of-text token its spelling is ordinary text") {
  std::vector<std::string> tokens(byte_symbols().begin(), byte_symbols().end());
  BytePairVocabulary vocabulary(tokens, {});
  CHECK(vocabulary.encode(end_of_text).size() == end_of_text.size());
  tokens.emplace_back(end_of_text);
  CHECK(BytePairVocabulary(tokens, {}).encode(end_of_text) == std::vector<std::int32_t>{256});
}

TEST_CASE("byte pairs: a vocabulary survives its files and its saved form") {
  TemporaryFolder folder;
  auto vocabulary = reference();
  write_byte_pairs(vocabulary, folder.path / "new");
  CHECK(read_byte_pairs(folder.path / "new/vocab.json").to_json() == vocabulary.to_json());
  auto made = make_vocabulary((folder.path / "new/vocab.json").string(), "");
  CHECK(load_vocabulary(made->to_json())->to_json() == vocabulary.to_json());
}

TEST_CASE("byte pairs: broken files are refused with a reason") {
  TemporaryFolder folder;
  auto read = [&](const std::string& vocab, const std::string& merges) {
    write_file(folder.path / "vocab.json", vocab);
    write_file(folder.path / "merges.txt", merges);
    return read_byte_pairs(folder.path / "vocab.json");
  };
  std::string vocab = read_file(references / "vocab.json");
  CHECK(read(vocab, "#version: 0.2\nh e\n").merges().size() == 1);
  CHECK(read(vocab, "h e\r\n").merges().size() == 1);
  CHECK_THROWS_WITH(read("{", "h e\n"), Contains("it is no JSON"));
  CHECK_THROWS_WITH(read("[1]", "h e\n"), Contains("its vocabulary is no object"));
  CHECK_THROWS_WITH(read("{\"a\": 1}", "h e\n"), Contains("no token has id 0"));
  CHECK_THROWS_WITH(read("{\"a\": \"b\"}", "h e\n"),
                    Contains("expected a whole number, got string"));
  CHECK_THROWS_WITH(read("{\"a\": 0}", "h e\n"), Contains("needs token \"h\""));
  CHECK_THROWS_WITH(read("{\"a b\": 0}", "h e\n"), Contains("byte-level spelling"));
  CHECK_THROWS_WITH(read(vocab, "th\n"), Contains("two tokens with a space between"));
  CHECK_THROWS_WITH(read(vocab, "h e\nh e\n"), Contains("merge 2 (\"h e\") is listed twice"));
  CHECK_THROWS_WITH(read(vocab, "q q\n"), Contains("needs token \"qq\""));
  fs::remove(folder.path / "merges.txt");
  CHECK_THROWS_WITH(read_byte_pairs(folder.path / "vocab.json"), Contains("no merges.txt"));
}
