// Describes vocabularies as the library tokenizers does: how text is split, which strings are
// tokens, and how tokens become text again. A reader accepts what it can encode alike, and nothing
// else. Chapter 02.
#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "nn/text/byte_pair.h"

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A tokenizer that splits, looks words up in `model`, and joins tokens by `decoder`.
json tokenizer_of(const json& split, const json& model, const json& decoder) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", split},
          {"post_processor", nullptr},
          {"decoder", decoder},
          {"model", model}};
}

/// Every character is a word, and a word is a token. A character that the vocabulary lacks is an
/// error there as it is here, since it lacks a token for unknown words, too.
json characters_json(const std::string& characters) {
  json ids = json::object();
  for (std::size_t at = 0; at < characters.size();) {
    const auto length = static_cast<std::size_t>(first_code_point(characters.substr(at, 4)).length);
    const auto id = ids.size();
    ids[characters.substr(at, length)] = id;
    at += length;
  }
  return tokenizer_of({{"type", "Split"},
                       {"pattern", {{"Regex", "[\\s\\S]"}}},
                       {"behavior", "Isolated"},
                       {"invert", false}},
                      {{"type", "WordLevel"}, {"vocab", ids}, {"unk_token", "<unknown>"}},
                      {{"type", "Fuse"}});
}

json byte_pairs_json(const BytePairVocabulary& vocabulary) {
  json ids = json::object();
  for (int id = 0; id < vocabulary.size(); ++id) ids[vocabulary.tokens()[id]] = id;
  const bool joins = !vocabulary.merges().empty();
  const json bytes{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", joins}};
  json all = tokenizer_of(bytes,
                          {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", false},
                           {"byte_fallback", false},
                           {"vocab", ids},
                           {"merges", vocabulary.merges()}},
                          bytes);
  const std::string end(end_of_text);
  if (ids.contains(end))
    all["added_tokens"].push_back({{"id", ids[end]},
                                   {"content", end},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", false},
                                   {"special", true}});
  return all;
}

BytePairVocabulary single_bytes() { return {{byte_symbols().begin(), byte_symbols().end()}, {}}; }

/// Throws unless the part of a tokenizer is absent or has this value.
void check_setting(const json& part, const char* name, const json& wanted) {
  PG_CHECK(!part.is_object() || !part.contains(name) || part[name] == wanted, name, " is ",
           part[name].dump(), "; plangrad's byte pairs need ", wanted.dump());
}

/// Puts tokens in the order of their ids.
std::vector<std::string> in_order(const json& vocab, const json& added) {
  std::map<std::int64_t, std::string> by_id;
  auto add = [&](std::int64_t id, const std::string& token) {
    const auto [at, is_new] = by_id.emplace(id, token);
    PG_CHECK(at->second == token, "tokens \"", at->second, "\" and \"", token, "\" both have id ",
             id);
  };
  for (const auto& [token, id] : vocab.items()) add(whole_number(id), token);
  for (const json& token : added) add(whole_number(token.at("id")), token.at("content"));
  std::vector<std::string> tokens;
  for (const auto& [id, token] : by_id) {
    PG_CHECK(id == static_cast<std::int64_t>(tokens.size()), "no token has id ", tokens.size());
    tokens.push_back(token);
  }
  return tokens;
}

/// Reads a model of byte pairs. Merges are written as "a b" or as ["a", "b"].
std::unique_ptr<Vocabulary> byte_pairs_of(const json& all) {
  const json &model = all.at("model"), split = all.value("pre_tokenizer", json());
  std::vector<std::string> merges;
  for (const json& merge : model.at("merges"))
    merges.push_back(merge.is_array()
                         ? merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>()
                         : merge.get<std::string>());
  PG_CHECK(split.is_object() && split.value("type", "") == "ByteLevel", "its pre_tokenizer is ",
           split.dump(), "; plangrad's byte pairs need ByteLevel, which is GPT-2's");
  check_setting(split, "add_prefix_space", false);
  if (!merges.empty()) check_setting(split, "use_regex", true);
  check_setting(all, "normalizer", nullptr);
  check_setting(model, "byte_fallback", false);
  check_setting(model, "ignore_merges", false);
  return std::make_unique<BytePairVocabulary>(
      in_order(model.at("vocab"), all.value("added_tokens", json::array())), merges);
}

/// Reads a model of words that are single characters.
std::unique_ptr<Vocabulary> characters_of(const json& model) {
  std::string all;
  for (const std::string& token : in_order(model.at("vocab"), json::array())) {
    PG_CHECK(!token.empty() && first_code_point(token).length == static_cast<int>(token.size()),
             "its token \"", token, "\" is not one character; plangrad knows byte pairs, and ",
             "tokens that are characters");
    all += token;
  }
  auto vocabulary = std::make_unique<CharVocabulary>(all);
  PG_CHECK(vocabulary->to_json().at("characters") == all,
           "its characters are not numbered in the order of their code points, as plangrad's are");
  return vocabulary;
}

}  // namespace

void write_tokenizer(const Vocabulary& vocabulary, const fs::path& folder, int context) {
  const auto* pairs = dynamic_cast<const BytePairVocabulary*>(&vocabulary);
  if (pairs) write_byte_pairs(*pairs, folder);
  const json saved = vocabulary.to_json();
  const json all = pairs                         ? byte_pairs_json(*pairs)
                   : saved.at("kind") == "bytes" ? byte_pairs_json(single_bytes())
                                                 : characters_json(saved.at("characters"));
  json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", context},
              {"clean_up_tokenization_spaces", false}};
  if (!all.at("added_tokens").empty())
    config["bos_token"] = config["eos_token"] = std::string(end_of_text);
  write_file(folder / "tokenizer.json", all.dump(2) + "\n");
  write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

std::unique_ptr<Vocabulary> read_tokenizer(const fs::path& folder) {
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    return std::make_unique<BytePairVocabulary>(read_byte_pairs(folder / "vocab.json"));
  PG_CHECK(fs::exists(folder / "tokenizer.json"), folder.string(),
           ": has neither vocab.json with merges.txt nor tokenizer.json, which turn tokens into ",
           "text; copy the tokenizer's files there");
  return read_tokenizer_json(folder / "tokenizer.json");
}

std::unique_ptr<Vocabulary> read_tokenizer_json(const fs::path& file) {
  const std::string bytes = read_file(file, most::json);
  try {
    const json all = parse_json(bytes);
    const json& model = all.at("model");
    const std::string kind = model.value("type", model.contains("merges") ? "BPE" : "");
    PG_CHECK(kind == "BPE" || kind == "WordLevel", "its model is ",
             kind.empty() ? "of an unknown kind" : kind, "; plangrad knows BPE and WordLevel");
    return kind == "BPE" ? byte_pairs_of(all) : characters_of(model);
  } catch (const std::exception& problem) {
    throw Error(text(file.string(), " can't be read as a tokenizer: ", problem.what()));
  }
}

}  // namespace plangrad::nn
