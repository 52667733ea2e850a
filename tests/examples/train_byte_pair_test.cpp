// Training of byte pairs: the merges of the tokenizers package, and which pair comes first.
// References: tests/references/byte_pair.
#include "examples/programs/train_byte_pair.h"

#include <algorithm>

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/folders.h"

using namespace plangrad::nn;
using plangrad::examples::train_byte_pairs;

TEST_CASE("byte pairs: training makes the merges of the tokenizers package") {
  const std::filesystem::path references =
      plangrad::tests::clone_path("tests/references/byte_pair");
  auto expected = read_byte_pairs(references / "vocab.json");
  auto trained = train_byte_pairs(read_file(references / "text.txt"), expected.size());
  CHECK(trained.merges() == expected.merges());
  // The package numbers "<|endoftext|>" first, GPT-2 and plangrad last.
  auto tokens = expected.tokens();
  std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
  CHECK(trained.tokens() == tokens);
}

TEST_CASE("byte pairs: training joins the most frequent pair, never across words or documents") {
  auto trained = train_byte_pairs("abab ab<|endoftext|>ab<|endoftext|>", 258);
  CHECK(trained.merges() == std::vector<std::string>{"a b"});
  CHECK(trained.size() == 258);
  // Of equally frequent pairs, the smaller ids: "a b" and "c d" both occur twice.
  CHECK(train_byte_pairs("cd,cd,ab,ab", 258).merges()[0] == "a b");
  CHECK_THROWS_WITH(train_byte_pairs("ab ab", 300), Contains("vocabulary of at most 258 tokens"));
  CHECK_THROWS_WITH(train_byte_pairs("ab ab", 256), Contains("too small"));
}

TEST_CASE("byte pairs: a run of one letter is counted anew after each merge") {
  auto trained = train_byte_pairs(std::string(64, 'a'), 262);
  CHECK(trained.merges() == std::vector<std::string>{"a a", "aa aa", "aaaa aaaa",
                                                     "aaaaaaaa aaaaaaaa",
                                                     "aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa"});
}

TEST_CASE("byte pairs: a merge in a long word visits the places of its pair alone") {
  // A walk over the whole word for each of the 1,243 merges would take 10^9 steps.
  std::string word;
  std::uint64_t state = 1;
  for (int i = 0; i < 1 << 20; ++i, state = state * 6364136223846793005u + 1442695040888963407u)
    word += static_cast<char>('a' + (state >> 60));
  const auto trained = train_byte_pairs(word, 1500);
  CHECK(trained.size() == 1500);
  // The first merge is the most frequent pair of neighbours.
  std::map<std::string, int> counts;
  for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[word.substr(i, 2)];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
  CHECK(trained.merges()[0] == std::string{most->first[0], ' ', most->first[1]});
}
