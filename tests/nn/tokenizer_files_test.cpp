// Vocabularies in Hugging Face's files: what is written is read back alike, and what plangrad would
// encode differently is refused. Not here: Hugging Face's own reader (references/exported.py).
#include "nn/text/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "nn/text/byte_pair.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
using nlohmann::json;
using plangrad::tests::error_of;
using Tokens = std::vector<std::int32_t>;

namespace {

struct TokenizerFolder : plangrad::tests::TemporaryFolder {
  TokenizerFolder() { make_folder(path); }
  json tokenizer() const { return json::parse(read_file(path / "tokenizer.json")); }
  void write(const json& all) const { write_file(path / "tokenizer.json", all.dump()); }
};

/// Byte pairs that join "th" and "the", with or without the token between documents. Bytes have the
/// ids of GPT-2's files, which follow from how they are spelled.
BytePairVocabulary small_pairs(bool separator) {
  std::vector<std::string> tokens(byte_symbols().begin(), byte_symbols().end());
  std::ranges::sort(tokens);
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
    CHECK(read_byte_pairs(folder.path / "vocab.json").encode(sentence) == expected);
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

namespace {

json added(int id, const std::string& content, const json& flags = json::object()) {
  json token{{"id", id}, {"content", content}, {"special", true}};
  token.update(flags);
  return token;
}

/// The tokenizer of small_pairs() with these added tokens, behind <|endoftext|> with id 258.
Tokens ids_of(const std::string& text, const std::vector<json>& tokens) {
  const TokenizerFolder folder;
  write_tokenizer(small_pairs(true), folder.path, 16);
  json all = folder.tokenizer();
  for (const json& token : tokens) all["added_tokens"].push_back(token);
  folder.write(all);
  const auto vocabulary = read_tokenizer(folder.path);
  const Tokens ids = vocabulary->encode(text);
  CHECK(load_vocabulary(vocabulary->to_json())->encode(text) == ids);
  write_tokenizer(*vocabulary, folder.path, 16);
  CHECK(read_tokenizer(folder.path)->encode(text) == ids);
  return ids;
}

}  // namespace

// The ids are those of the package tokenizers 0.23.3.
TEST_CASE("added tokens are found in text before it is split") {
  const std::vector<json> pad{added(259, "<|pad|>")};
  CHECK(ids_of("a<|pad|><|pad|>b", pad) == Tokens{64, 259, 259, 65});
  CHECK(ids_of("<|pad|", pad) == Tokens{27, 91, 79, 64, 67, 91});
  // The longest one at the first place; none inside another.
  const std::vector<json> nested{added(259, "ab"), added(260, "abc"), added(261, "bcd")};
  CHECK(ids_of("abcd", nested) == Tokens{260, 67});
  CHECK(ids_of("abd bcd", nested) == Tokens{259, 67, 220, 261});
  const std::vector<json> odd{added(259, "my token"), added(260, "é😀")};
  CHECK(ids_of("the my token é😀", odd) == Tokens{257, 220, 259, 220, 260});
}

TEST_CASE("added tokens take in white space where they say so") {
  const std::vector<json> left{added(259, "<m>", {{"lstrip", true}})};
  CHECK(ids_of("a \n\u00a0<m> b", left) == Tokens{64, 259, 220, 65});
  const std::vector<json> right{added(259, "<m>", {{"rstrip", true}})};
  CHECK(ids_of("a <m>\u3000 b", right) == Tokens{64, 220, 259, 65});
  const std::vector<json> both{added(259, "<m>", {{"lstrip", true}, {"rstrip", true}})};
  CHECK(ids_of(" <m>  <m> ", both) == Tokens{259, 259});
}

TEST_CASE("added tokens that are single words are found between words alone") {
  const std::vector<json> word{added(259, "cat", {{"single_word", true}})};
  CHECK(ids_of("cat", word) == Tokens{259});
  CHECK(ids_of("cat.", word) == Tokens{259, 13});
  CHECK(ids_of("cats", word) == Tokens{66, 64, 83, 82});
  CHECK(ids_of("_cat", word) == Tokens{62, 66, 64, 83});
  CHECK(ids_of("écat", word) == Tokens{127, 102, 66, 64, 83});
}

TEST_CASE("normalized added tokens are looked for between the others") {
  const std::vector<json> two{added(259, "abc", {{"normalized", true}}), added(260, "bcd")};
  CHECK(ids_of("abcd abc", two) == Tokens{64, 260, 220, 259});
}

TEST_CASE("a folder adds tokens beside its vocabulary's files") {
  for (const char* form : {"added_tokens.json", "tokenizer_config.json"}) {
    const TokenizerFolder folder;
    write_byte_pairs(small_pairs(true), folder.path);
    const bool plain = form == std::string("added_tokens.json");
    const json token{{"content", "<|pad|>"}, {"lstrip", false}};
    const json file =
        plain ? json{{"<|pad|>", 259}} : json{{"added_tokens_decoder", {{"259", token}}}};
    write_file(folder.path / form, file.dump());
    const auto vocabulary = read_tokenizer(folder.path);
    CHECK(vocabulary->encode("a<|pad|>") == Tokens{64, 259});
    CHECK(vocabulary->size() == 260);
    CHECK(vocabulary->size_without_added() == 258);
  }
}

// As in transformers 4.57 and 5.24, whose plain tokens are normalized unless a file says otherwise.
TEST_CASE("tokens with a role are found before plain ones") {
  for (const bool decoder : {false, true}) {
    const TokenizerFolder folder;
    write_byte_pairs(small_pairs(true), folder.path);
    json config{{"tokenizer_class", "GPT2Tokenizer"}, {"mask_token", "bcd"}};
    if (decoder)
      config["added_tokens_decoder"]["259"]["content"] = "abc";
    else
      write_file(folder.path / "added_tokens.json", R"({"abc": 259, "bcd": 260})");
    write_file(folder.path / "tokenizer_config.json", config.dump());
    CHECK(read_tokenizer(folder.path)->encode("abcd abc") == Tokens{64, 260, 220, 259});
  }
}

// As Hugging Face's tokenizers do, of three generations (4.28, 4.44 and 5.24).
TEST_CASE("tokens with a role that a tokenizer lacks are appended to it") {
  const auto ids = [](const json& config, const json& map, bool has_model) {
    const TokenizerFolder folder;
    write_byte_pairs(small_pairs(false), folder.path);
    write_file(folder.path / "tokenizer_config.json", config.dump());
    write_file(folder.path / "special_tokens_map.json", map.dump());
    if (has_model) write_file(folder.path / "config.json", "{}");
    return read_tokenizer(folder.path)->encode("a<|endoftext|>[PAD]").size();
  };
  const std::size_t text = std::string_view("a<|endoftext|>[PAD]").size(), pad = 5, end = 13;
  const json none = json::object(), fast{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  CHECK(ids(none, none, false) == text);
  CHECK(ids(fast, none, true) == text);
  CHECK(ids(none, none, true) == text - end + 1);
  CHECK(ids({{"tokenizer_class", "GPT2TokenizerFast"}}, none, false) == text - end + 1);
  CHECK(ids({{"pad_token", "[PAD]"}}, none, false) == text - pad + 1);
  CHECK(ids(fast, {{"pad_token", {{"content", "[PAD]"}}}}, false) == text - pad + 1);
  CHECK(ids(fast, {{"additional_special_tokens", {"[PAD]", "a"}}}, true) == text - pad + 1);
  const json other{{"bos_token", "a"}, {"eos_token", "a"}, {"unk_token", nullptr}};
  CHECK(ids(none, other, true) == text);
}

// The ids are those of transformers 5.24.
TEST_CASE("tokens with a role get ids in the order of roles, and take in white space") {
  const std::string padding = R"({"pad_token": "[X]"})", none = "null",
                    left = R"({"__type": "AddedToken", "lstrip": true, "content": )";
  const auto check = [](const std::string& roles, const std::string& padding, const Tokens& ids) {
    const TokenizerFolder folder;
    write_tokenizer(small_pairs(false), folder.path, 16);
    json all = folder.tokenizer();
    all["padding"] = json::parse(padding);
    folder.write(all);
    write_file(folder.path / "tokenizer_config.json",
               R"({"tokenizer_class": "TokenizersBackend", )" + roles + "}");
    CHECK(read_tokenizer(folder.path)->encode("a [X][Y] the") == ids);
  };
  const Tokens y_x{64, 220, 259, 258, 220, 257};
  check(R"("extra_special_tokens": ["[Y]", "[X]"])", none, y_x);
  check(R"("extra_special_tokens": {"z": "[Y]", "a": "[X]"})", none, y_x);
  check(R"("extra_special_tokens": ["[X]"], "mask_token": "[Y]")", none, y_x);
  check(R"("z_token": "[Y]", "a_token": "[X]")", none, y_x);
  check(R"("mask_token": "[Y]")", padding, {64, 220, 258, 259, 220, 257});
  check(R"("mask_token": "[X]", "cls_token": "[Y]")", none, y_x);
  check(R"("pad_token": "[Y]")", padding, {64, 220, 58, 55, 60, 258, 220, 257});
  check(R"("pad_token": )" + left + R"("[X]"})", none, {64, 258, 58, 56, 60, 220, 257});
  check(R"("pad_token": )" + left + R"("the"})", none, {64, 220, 58, 55, 60, 58, 56, 60, 257});
}

TEST_CASE("a tokenizer of a class that splits text otherwise is refused beside either file") {
  const TokenizerFolder folder;
  write_tokenizer(small_pairs(true), folder.path, 16);
  const auto check = [&](const char* file, const char* name, const char* kind, bool is_known) {
    write_file(folder.path / file, json{{name, kind}}.dump());
    const std::string refusal = text((folder.path / file).string(), ": ", name, " is \"", kind);
    for (const char* vocabulary : {"vocab.json", "tokenizer.json"}) {
      const auto read = [&] { make_vocabulary(folder.path / vocabulary, ""); };
      CHECK(error_of(read).substr(0, refusal.size()) == (is_known ? "" : refusal));
    }
  };
  const char* config = "tokenizer_config.json";
  for (const char* kind : {"Qwen2Tokenizer", "BertTokenizer", "LlamaTokenizer", "CLIPTokenizer"})
    check(config, "tokenizer_class", kind, false);
  check(config, "tokenizer_class", "GPT2TokenizerFast", true);
  check("config.json", "model_type", "llama", true);  // the class that is named counts
  std::filesystem::remove(folder.path / config);
  for (const char* kind : {"qwen2", "roberta", "bart", "clip", "whisper"})
    check("config.json", "model_type", kind, false);
  check("config.json", "tokenizer_class", "WhisperTokenizer", false);
  check("config.json", "model_type", "gpt2", true);
}

TEST_CASE("what tokenizer_config.json says of an added token counts before tokenizer.json") {
  const TokenizerFolder folder;
  write_tokenizer(small_pairs(true), folder.path, 16);
  json all = folder.tokenizer();
  json mask{{"id", 259}, {"content", "<mask>"}, {"lstrip", false}};
  all["added_tokens"].push_back(mask);
  folder.write(all);
  mask["lstrip"] = true;
  const json config{{"added_tokens_decoder", {{"259", mask}}}};
  CHECK(read_tokenizer(folder.path)->encode("a <mask>") == Tokens{64, 220, 259});
  write_file(folder.path / "tokenizer_config.json", config.dump());
  CHECK(read_tokenizer(folder.path)->encode("a <mask>") == Tokens{64, 259});
}

TEST_CASE("an error names that file of a tokenizer which has it") {
  const TokenizerFolder folder;
  write_tokenizer(small_pairs(true), folder.path, 16);
  const auto check = [&](const char* name, const std::string& bytes, const std::string& part) {
    write_file(folder.path / name, bytes);
    CHECK_THROWS_WITH(read_tokenizer(folder.path),
                      StartsWith((folder.path / name).string()) && Contains(part) &&
                          !Contains("json.exception") && !Contains("train on its ids"));
    std::filesystem::remove(folder.path / name);
  };
  const char* config = "tokenizer_config.json";
  check(config, R"({"add_prefix_space": true})", "add_prefix_space is true");
  check(config, R"({"add_bos_token": true})", "add_bos_token is true");
  check(config, R"({"split_special_tokens": true})", "split_special_tokens is true");
  check(config, R"({"added_tokens_decoder": {"x": {"content": "y"}}})", "");
  check("added_tokens.json", R"({"<|pad|>": "one"})", "expected a whole number");
  for (const char* name : {config, "special_tokens_map.json", "added_tokens.json"}) {
    check(name, "[1]", "it is no JSON, or not of its kind's form");
    check(name, "{", "it is no JSON, or not of its kind's form");
    check(name, "<html>", " is a web page");
    check(name, R"({"error": "Entry not found"})", " or a server's error");
  }
  CHECK(read_tokenizer(folder.path)->size() == 259);
  check("tokenizer.json", "<!DOCTYPE html>", " is a web page");
  check("tokenizer.json", "{}", " can't be read as a tokenizer: it is no JSON, or not of its kind");
  for (const char* name : {"vocab.json", "merges.txt"}) {
    write_byte_pairs(small_pairs(true), folder.path);
    check(name, "<!DOCTYPE html>", " is a web page");
  }
}

TEST_CASE("a tokenizer that adds tokens to each text is refused") {
  const TokenizerFolder folder;
  write_tokenizer(small_pairs(true), folder.path, 16);
  json all = folder.tokenizer();
  const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
      begin{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
      levels{{"type", "ByteLevel"}, {"trim_offsets", false}},
      plain{{"type", "TemplateProcessing"}, {"single", json::array({text})}},
      begun{{"type", "TemplateProcessing"}, {"single", json::array({begin, text})}};
  const auto both = [](const json& one, const json& two) {
    return json{{"type", "Sequence"}, {"processors", json::array({one, two})}};
  };
  const auto error = [&](const json& after) {
    all["post_processor"] = after;
    folder.write(all);
    return error_of([&] { read_tokenizer(folder.path); });
  };
  for (const json& after : {json(), levels, plain, both(levels, plain)})
    CHECK(error(after).empty());
  for (const json& after : {begun, both(levels, begun), json{{"type", "RobertaProcessing"}}})
    CHECK_THAT(error(after), Contains("adds tokens to each text"));
}

TEST_CASE("tokenizer.json counts before vocab.json, and bytes may have no token") {
  const TokenizerFolder folder;
  write_byte_pairs(small_pairs(true), folder.path);
  std::vector<std::string> few{"a", "b", "ab", std::string(end_of_text)};
  write_tokenizer(BytePairVocabulary(few, {"a b"}), folder.path, 16);
  write_byte_pairs(small_pairs(true), folder.path);
  const auto vocabulary = read_tokenizer(folder.path);
  CHECK(vocabulary->encode("abba<|endoftext|>") == Tokens{2, 1, 0, 3});
  CHECK_THROWS_WITH(vocabulary->encode("abc"), Contains("has the byte 99 in \"abc\", for which"));
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

// The package tokenizers 0.23.3 splits text into characters by these three, and by no other here.
TEST_CASE(
    "a tokenizer of characters is read if it changes no text, and splits each from the next") {
  const TokenizerFolder folder;
  const CharVocabulary characters(" !abcd");
  write_tokenizer(characters, folder.path, 8);
  const json good = folder.tokenizer();
  const auto with = [&](const char* part, const json& value) {
    json all = good;
    all[part] = value;
    folder.write(all);
    return read_tokenizer(folder.path)->encode("bad !");
  };
  const auto split = [](const char* kind, const char* by, const char* behavior = "Isolated") {
    return json{{"type", "Split"}, {"pattern", {{kind, by}}}, {"behavior", behavior}};
  };
  const json list{{"type", "Sequence"}, {"pretokenizers", {split("Regex", "")}}};
  for (const json& each : {split("Regex", ""), split("String", ""), list})
    CHECK(with("pre_tokenizer", each) == characters.encode("bad !"));
  for (const json& each : {split("Regex", "."), split("Regex", "[\\s\\S]", "Removed"), json(),
                           json{{"type", "Whitespace"}}, json{{"type", "WhitespaceSplit"}}})
    CHECK_THROWS_WITH(with("pre_tokenizer", each), Contains("its pre_tokenizer is "));
  for (const char* each : {"Lowercase", "NFC", "StripAccents"})
    CHECK_THROWS_WITH(with("normalizer", {{"type", each}}), Contains("needs null, as token"));
  write_file(folder.path / "special_tokens_map.json", R"({"pad_token": "[PAD]"})");
  CHECK_THROWS_WITH(with("normalizer", nullptr), Contains("it adds tokens to characters"));
}

TEST_CASE("a tokenizer that plangrad would not follow is refused by what differs") {
  const TokenizerFolder folder;
  CHECK_THROWS_WITH(read_tokenizer(folder.path),
                    Contains("neither tokenizer.json nor vocab.json with merges.txt"));
  for (const auto& [name, cure] :
       {std::pair("vocab.txt", "vocab.txt is of another kind"),
        {"tokenizer.model", "tokenizer.model is of another kind"},
        {"x.tiktoken", "x.tiktoken is of tiktoken: in Python, make tokenizer.json"},
        {"encoder.json", "encoder.json to vocab.json, and its vocab.bpe"}}) {
    write_file(folder.path / name, "x");
    CHECK_THROWS_WITH(read_tokenizer(folder.path), Contains(cure));
  }
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
  json plain = good;
  plain["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  folder.write(plain);
  CHECK(read_tokenizer(folder.path)->size() == 259);
  check_refused({{"model", {{"byte_fallback", true}}}}, "byte_fallback is true");
  check_refused({{"model", {{"vocab", {{"the", 300}}}}}}, "no token has id 257");
  check_refused({{"model", {{"vocab", {{"the", 3}}}}}}, "both have id 3");
  check_refused({{"model", {{"dropout", 0.1}}}}, "dropout is 0.1");
  check_refused({{"model", {{"end_of_word_suffix", "</w>"}}}}, "end_of_word_suffix is \"</w>\"");
  check_refused({{"model", {{"vocab", {{"a</w>", 259}}}}}}, "\"a</w>\" ends a word, as in CLIP");
  check_refused({{"model", {{"merges", {{"t", "h", "e"}}}}}}, "merge 1 joins 3 tokens");
  check_refused({{"added_tokens", {added(305, "<|x|>")}}}, "\"<|x|>\" has the id 305, and Hugging");
  check_refused({{"model", {{"type", "WordLevel"}}}}, "it adds tokens to characters");
  std::filesystem::remove(folder.path / "tokenizer_config.json");  // which names a token
  check_refused({{"added_tokens", nullptr}, {"model", {{"type", "WordLevel"}}}},
                "is not one character");
  json swapped{{"model", {{"type", "WordLevel"}, {"vocab", {{"b", 0}, {"a", 1}}}}}};
  folder.write(swapped);
  CHECK_THROWS_WITH(read_tokenizer_json(folder.path / "tokenizer.json"),
                    Contains("in the order of their code points"));
}
