// Vocabularies of characters and bytes, their saved form, and the rules of UTF-8.
// Not here: byte pairs (byte_pair_test.cpp).
#include "nn/text/vocabulary.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace plangrad::nn;
using Tokens = std::vector<std::int32_t>;

TEST_CASE("characters are numbered in the order of their code points") {
  CharVocabulary vocabulary("hello\nWörld 😀");
  CHECK(vocabulary.size() == 11);  // \n space W d e h l o r ö 😀
  CHECK(vocabulary.encode("\n Wö😀") == Tokens{0, 1, 2, 9, 10});
  CHECK(vocabulary.decode(Tokens{5, 4, 6, 6, 7}) == "hello");
  CHECK(vocabulary.decode(vocabulary.encode("drö 😀")) == "drö 😀");
  CHECK(vocabulary.encode("").empty());
}

TEST_CASE("a character that the vocabulary lacks is named") {
  CharVocabulary vocabulary("ab");
  CHECK_THROWS_WITH(vocabulary.encode("abé"), Contains("U+00E9 'é' at byte 2"));
  CHECK_THROWS_WITH(vocabulary.encode("\n"), Contains("character U+000A at byte 0"));
}

TEST_CASE("text that is not UTF-8 is refused with the offset") {
  CHECK_THROWS_WITH(CharVocabulary("ab\xff"), Contains("not valid UTF-8 at byte 2"));
  CHECK_THROWS_WITH(CharVocabulary("abc").encode("a\xc3"), Contains("not valid UTF-8 at byte 1"));
  CHECK_THROWS_WITH(CharVocabulary(""), Contains("needs text"));
}

TEST_CASE("UTF-8 is read by the standard's rules") {
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xc3(", "\xf0\x9f\x98"}) {
    CHECK(first_code_point(bad).length == 0);
  }
  for (char32_t c :
       {0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string bytes = to_utf8(c);
    CodePoint point = first_code_point(bytes);
    CHECK(point.value == c);
    CHECK(point.length == static_cast<int>(bytes.size()));
  }
  CHECK(valid_utf8_prefix("aé\xff") == 3);
}

TEST_CASE("bytes spell any text") {
  ByteVocabulary vocabulary;
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  Tokens tokens = vocabulary.encode(all);
  CHECK(tokens[0] == 0);
  CHECK(tokens[255] == 255);
  CHECK(vocabulary.decode(tokens) == all);
}

TEST_CASE("a token outside the vocabulary is refused") {
  CHECK_THROWS_WITH(ByteVocabulary().decode(Tokens{256}), Contains("token 256 is outside"));
  CHECK_THROWS_WITH(CharVocabulary("ab").decode(Tokens{-1}), Contains("token -1 is outside"));
}

TEST_CASE("a vocabulary survives being saved") {
  for (const char* spec : {"chars", "bytes"}) {
    auto made = make_vocabulary(spec, "some text: \n\"é\" 😀");
    auto loaded = load_vocabulary(nlohmann::json::parse(made->to_json().dump()));
    CHECK(loaded->name() == spec);
    CHECK(loaded->size() == made->size());
    CHECK(loaded->encode("\"é\" me") == made->encode("\"é\" me"));
  }
}

TEST_CASE("an unknown or broken vocabulary is refused") {
  CHECK_THROWS_WITH(make_vocabulary("words", "text"), Contains("neither \"chars\" nor \"bytes\""));
  CHECK_THROWS_WITH(load_vocabulary({{"kind", "words"}}), Contains("of kind \"words\""));
  CHECK_THROWS_WITH(load_vocabulary({{"kind", "chars"}}), Contains("can't be read"));
  CHECK_THROWS_WITH(load_vocabulary(nlohmann::json::array()), Contains("can't be read"));
}
