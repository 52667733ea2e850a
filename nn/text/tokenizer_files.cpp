// Describes vocabularies as the library tokenizers does: how text is split, which strings are
// tokens, and how tokens become text again. A reader accepts what it can encode alike, and nothing
// else. Chapter 02.
#include "nn/text/vocabulary.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "nn/checkpoint/file.h"
#include "nn/text/byte_pair.h"

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::int64_t most_tokens = 1 << 20;  // of a vocabulary; real ones have 300,000

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
  for (const AddedToken& token : vocabulary.added())
    all["added_tokens"].emplace_back(to_json(token))["special"] = true;
  return all;
}

/// Throws unless the part of a tokenizer is absent, null, or has this value.
void check_setting(const json& part, const char* name, const json& wanted) {
  const json found = part.is_object() ? part.value(name, json()) : json();
  PG_CHECK(found.is_null() || found == wanted, name, " is ", found.dump().substr(0, 200),
           "; plangrad needs ", wanted.dump(), ", as tokenizers of GPT-2's kind have: take one of ",
           "these, or let train_vocabulary make one");
}

/// Puts tokens in the order of their ids.
std::vector<std::string> in_order(const json& vocab) {
  PG_CHECK(vocab.is_object(), "its vocabulary is no object {\"token\": id, ...}");
  PG_CHECK(std::ssize(vocab) <= most_tokens, "its vocabulary has more than ", most_tokens,
           " tokens");
  std::map<std::int64_t, std::string> by_id;
  for (const auto& [token, id] : vocab.items()) {
    const auto [at, is_new] = by_id.emplace(whole_number(id), token);
    PG_CHECK(is_new, "tokens \"", at->second, "\" and \"", token, "\" both have id ", at->first);
  }
  std::vector<std::string> tokens;
  for (const auto& [id, token] : by_id) {
    PG_CHECK(id == std::ssize(tokens), "no token has id ", tokens.size());
    tokens.push_back(token);
  }
  return tokens;
}

/// Reads a file by a function of its bytes. An error gets the file's name.
template <class F>
auto read_by(const fs::path& file, const char* as, F read) {
  const std::string bytes = read_file(file), kind = foreign_kind(bytes);
  PG_CHECK(kind.empty(), file.string(), ' ', kind);
  try {
    return read(bytes);
  } catch (const std::exception& problem) {
    if (dynamic_cast<const json::exception*>(&problem))
      throw Error(text(file.string(), as, "it is no JSON, or not of its kind's form"));
    throw OtherTokenizer(text(file.string(), as, problem.what()));
  }
}

/// Settings of a tokenizer that stand in files beside its tokenizer.json or vocab.json.
struct Beside {
  std::vector<AddedToken> first;  // they hide those of the same content in tokenizer.json
  std::vector<AddedToken> last;   // those of tokenizer.json hide these
  ordered_json roles = ordered_json::object();  // tokens by role, in the order of the file
  bool is_gpt2 = false;                         // the tokenizer's class
};

/// Whether a file names GPT-2's tokenizer, or one that tokenizer.json describes whole.
/// throws: Error if the file names another: Hugging Face builds it by the rules of its class,
///         whatever tokenizer.json has
std::optional<bool> names_gpt2(const json& config, const char* name) {
  constexpr std::array gpt2{"GPT2Tokenizer", "GPT2TokenizerFast", "gpt2", "gpt_neo", "gptj"};
  constexpr std::array whole{"PreTrainedTokenizerFast", "TokenizersBackend"};
  const json kind = config.value(name, json());
  if (!kind.is_string()) return {};
  const bool is_gpt2 = std::ranges::count(gpt2, kind) > 0;
  PG_CHECK(is_gpt2 || std::ranges::count(whole, kind) > 0, name, " is ", kind.dump(),
           ", which splits text by its own rules; plangrad knows GPT2Tokenizer, and ",
           "PreTrainedTokenizerFast with a tokenizer.json: save the tokenizer as one of these");
  return is_gpt2;
}

Beside read_beside(const fs::path& folder) {
  Beside beside;
  const auto add = [](const json& id, json token, std::vector<AddedToken>& added) {
    token["id"] = id;
    token["normalized"] = token.value("normalized", !token.value("special", false));
    added.push_back(added_token(token));
  };
  const auto read_in = [&](const char* name, auto take) {
    if (fs::exists(folder / name))
      read_by(folder / name, ": ", [&](const std::string& bytes) {
        (void)parse_json(bytes).get<json::object_t>();  // throws if it is a list
        take(ordered_json::parse(bytes));
      });
  };
  std::optional<bool> is_gpt2;
  read_in("tokenizer_config.json", [&](const ordered_json& config) {
    for (const char* name :
         {"add_prefix_space", "add_bos_token", "add_eos_token", "split_special_tokens"})
      check_setting(config, name, false);
    const ordered_json tokens = config.value("added_tokens_decoder", ordered_json::object());
    for (const auto& [id, token] : tokens.items()) add(parse_json(id), token, beside.first);
    is_gpt2 = names_gpt2(config, "tokenizer_class");
    beside.roles = config;
  });
  if (!is_gpt2)
    read_in("config.json", [&](const ordered_json& config) {
      is_gpt2 = names_gpt2(config, "tokenizer_class");
      if (!is_gpt2) is_gpt2 = names_gpt2(config, "model_type").value_or(true);
    });
  beside.is_gpt2 = is_gpt2.value_or(false);
  read_in("special_tokens_map.json", [&](const auto& roles) { beside.roles.update(roles); });
  read_in("added_tokens.json", [&](const ordered_json& ids) {
    for (const auto& [content, id] : ids.items()) add(id, {{"content", content}}, beside.last);
  });
  return beside;
}

constexpr std::int32_t next_id = INT32_MAX;  // of a token with a role: its own, or the next one

/// All added tokens, those first that hide others of the same content; those with a role last, in
/// the order in which Hugging Face appends them.
///   tokenizer: a tokenizer.json, whose padding has the token of its role if no file names one
std::vector<AddedToken> all_added(const Beside& beside, const json& tokenizer) {
  std::vector<AddedToken> added = beside.first;
  for (const json& token : tokenizer.value("added_tokens", json::array()))
    added.push_back(added_token(token));

  ordered_json roles;
  for (const char* role : {"bos_token", "eos_token", "unk_token"})
    roles[role] = beside.is_gpt2 ? json(end_of_text) : json();  // GPT-2's own, if it is not named
  const json padding = beside.is_gpt2 ? json() : tokenizer.value("padding", json());
  roles["sep_token"] = nullptr;
  roles["pad_token"] = padding.is_object() ? padding.at("pad_token") : json();
  for (const char* role : {"cls_token", "mask_token"}) roles[role] = nullptr;
  roles.update(beside.roles);
  std::vector<AddedToken> with_role;
  const auto add = [&](const json& token) {
    json all = token.is_object() ? token : json{{"content", token}};
    all["id"] = next_id;
    if (all.contains("content") && all["content"].is_string())
      with_role.push_back(added_token(all));
  };
  for (const auto& [role, token] : roles.items())
    if (role.ends_with("_token")) add(token);
  const ordered_json extra = roles.value("extra_special_tokens", ordered_json());
  const ordered_json more = roles.value("additional_special_tokens", ordered_json());
  for (const auto& [place, token] : (extra.empty() ? more : extra).items()) add(token);
  for (AddedToken token : beside.last) {
    token.normalized = !std::ranges::count(with_role, token.content, &AddedToken::content);
    added.push_back(token);
  }
  added.insert(added.end(), with_role.begin(), with_role.end());
  return added;
}

/// Whether a post-processor adds tokens to each text.
bool adds_tokens(const json& part) {
  const std::string type = part.is_object() ? part.value("type", "") : "ByteLevel";
  if (type == "Sequence") return std::ranges::any_of(part.at("processors"), adds_tokens);
  if (type != "TemplateProcessing") return type != "ByteLevel";
  return std::ranges::any_of(part.at("single"),
                             [](const json& piece) { return piece.contains("SpecialToken"); });
}

/// Makes a vocabulary of a model's tokens and of those that were added. As in Hugging Face, a token
/// that the model has keeps its id, and new ones follow.
BytePairVocabulary byte_pairs_of(const json& vocab, const std::vector<std::string>& merges,
                                 std::vector<AddedToken> added) {
  std::vector<std::string> tokens = in_order(vocab);
  PG_CHECK(!vocab.contains("a</w>"),
           "its token \"a</w>\" ends a word, as in CLIP; plangrad knows GPT-2's byte pairs");
  std::set<std::string> known{""};
  std::erase_if(added, [&](const auto& token) { return !known.insert(token.content).second; });
  std::ranges::stable_sort(added, {}, &AddedToken::id);
  for (AddedToken& token : added) {
    const auto own = vocab.find(token.content);
    const std::int64_t id = own != vocab.end() ? whole_number(*own) : std::ssize(tokens);
    PG_CHECK(token.id == id || token.id == next_id, "its added token \"", token.content,
             "\" has the id ", token.id, ", and Hugging Face gives it ", id);
    token.id = static_cast<std::int32_t>(id);
    if (own == vocab.end()) tokens.push_back(token.content);
  }
  return {std::move(tokens), merges, added};
}

/// Reads merges, which are written as "a b" or as ["a", "b"].
std::vector<std::string> merges_of(const json& model) {
  std::vector<std::string> merges;
  for (const json& merge : model.at("merges")) {
    PG_CHECK(!merge.is_array() || merge.size() == 2, "merge ", merges.size() + 1, " joins ",
             merge.size(), " tokens, expected two");
    merges.push_back(merge.is_array()
                         ? merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>()
                         : merge.get<std::string>());
  }
  return merges;
}

/// Returns how a tokenizer splits text. throws: Error if a normalizer changes the text first
json split_of(const json& all) {
  const json none{{"type", "Sequence"}, {"normalizers", json::array()}};
  if (all.value("normalizer", json()) != none) check_setting(all, "normalizer", nullptr);
  const json split = all.value("pre_tokenizer", json());
  const bool is_list = split.is_object() && split.value("type", "") == "Sequence";
  return is_list && split.at("pretokenizers").size() == 1 ? split["pretokenizers"][0] : split;
}

/// Reads a tokenizer of byte pairs.
BytePairVocabulary byte_pairs_of(const json& all, const Beside& beside) {
  const json &model = all.at("model"), split = split_of(all);
  const std::vector<std::string> merges = merges_of(model);
  PG_CHECK(split.is_object() && split.value("type", "") == "ByteLevel", "its pre_tokenizer is ",
           split.dump().substr(0, 200), "; plangrad's byte pairs need ByteLevel, which is GPT-2's");
  check_setting(split, "add_prefix_space", false);
  if (!merges.empty()) check_setting(split, "use_regex", true);
  for (const char* name : {"byte_fallback", "ignore_merges"}) check_setting(model, name, false);
  check_setting(model, "dropout", 0);
  check_setting(model, "continuing_subword_prefix", "");
  check_setting(model, "end_of_word_suffix", "");
  return byte_pairs_of(model.at("vocab"), merges, all_added(beside, all));
}

/// Returns the lines of merges.txt without the first one, "#version: 0.2".
std::vector<std::string> merge_lines(const std::string& file) {
  std::istringstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) lines.push_back(line);
    PG_CHECK(std::ssize(lines) <= most_tokens, "there are more than ", most_tokens, " merges");
  }
  return lines;
}

/// Reads a tokenizer of words that are single characters.
std::unique_ptr<Vocabulary> characters_of(const json& tokenizer, const Beside& beside) {
  PG_CHECK(all_added(beside, tokenizer).empty(),
           "it adds tokens to characters; plangrad knows them beside byte pairs alone");
  std::string all;
  for (const std::string& token : in_order(tokenizer.at("model").at("vocab"))) {
    PG_CHECK(!token.empty() && first_code_point(token).length == static_cast<int>(token.size()),
             "its token \"", token, "\" is not one character; plangrad knows byte pairs, and ",
             "tokens that are characters");
    all += token;
  }
  auto vocabulary = std::make_unique<CharVocabulary>(all);
  PG_CHECK(vocabulary->to_json().at("characters") == all,
           "its characters are not numbered in the order of their code points, as plangrad's are");
  const json split = split_of(tokenizer),
             by = split.is_object() ? split.value("pattern", json()) : json();
  const json patterns[] = {{{"Regex", "[\\s\\S]"}}, {{"Regex", ""}}, {{"String", ""}}};
  PG_CHECK(std::ranges::count(patterns, by) > 0 && split.value("behavior", "") == "Isolated",
           "its pre_tokenizer is ", split.dump().substr(0, 200),
           "; plangrad's characters need Split, Isolated, by the Regex [\\s\\S]");
  return vocabulary;
}

}  // namespace

void write_tokenizer(const Vocabulary& vocabulary, const fs::path& folder, int context) {
  const auto* pairs = dynamic_cast<const BytePairVocabulary*>(&vocabulary);
  if (pairs) write_byte_pairs(*pairs, folder);
  const json saved = vocabulary.to_json();
  const json all = pairs ? byte_pairs_json(*pairs)
                   : saved.at("kind") == "bytes"
                       ? byte_pairs_json({{byte_symbols().begin(), byte_symbols().end()}, {}})
                       : characters_json(saved.at("characters"));
  json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", context},
              {"clean_up_tokenization_spaces", false}};
  if (pairs && pairs->separator())
    config["bos_token"] = config["eos_token"] = std::string(end_of_text);
  write_file(folder / "tokenizer.json", all.dump(2) + "\n");
  write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

std::unique_ptr<Vocabulary> read_tokenizer(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json")) return read_tokenizer_json(folder / "tokenizer.json");
  std::string cure = "copy the tokenizer's files there";
  for (const std::string other : {"vocab.txt", "tokenizer.model"})  // WordPiece, SentencePiece
    if (fs::exists(folder / other)) cure = other + " is of another kind: use one of byte pairs";
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".tiktoken")
      cure = entry.path().filename().string() + " is of tiktoken: in Python, make tokenizer.json " +
             "of it by convert_tiktoken_to_fast() of transformers.integrations.tiktoken";
  if (fs::exists(folder / "encoder.json"))
    cure = "rename OpenAI's encoder.json to vocab.json, and its vocab.bpe to merges.txt";
  PG_CHECK(fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"), folder.string(),
           ": has neither tokenizer.json nor vocab.json with merges.txt, which turn tokens into ",
           "text; ", cure);
  return std::make_unique<BytePairVocabulary>(read_byte_pairs(folder / "vocab.json"));
}

std::unique_ptr<Vocabulary> read_tokenizer_json(const fs::path& file) {
  const Beside beside = read_beside(file.parent_path());
  const auto read = [&](const std::string& bytes) -> std::unique_ptr<Vocabulary> {
    const json all = parse_json(bytes);
    const json& model = all.at("model");
    const std::string kind = model.value("type", model.contains("merges") ? "BPE" : "");
    PG_CHECK(kind == "BPE" || kind == "WordLevel", "its model is ",
             kind.empty() ? "of an unknown kind" : kind, "; plangrad knows BPE and WordLevel");
    const json after = all.value("post_processor", json());
    PG_CHECK(!adds_tokens(after), "its post_processor adds tokens to each text, and plangrad adds ",
             "none: set it to null if texts may begin and end without them; it is ",
             after.dump().substr(0, 200));
    if (kind == "BPE") return std::make_unique<BytePairVocabulary>(byte_pairs_of(all, beside));
    return characters_of(all, beside);
  };
  return read_by(file, " can't be read as a tokenizer: ", read);
}

BytePairVocabulary read_byte_pairs(const fs::path& vocab_json) {
  read_by(vocab_json, "", [](const std::string&) {});  // it may be a web page, or empty
  PG_CHECK(
      fs::exists(vocab_json.parent_path() / "merges.txt"), vocab_json.string(),
      ": has no merges.txt beside it. A vocabulary is a vocab.json with its merges.txt, a file "
      "whose name ends in tokenizer.json, or the folder of either");
  const auto merges = read_by(vocab_json.parent_path() / "merges.txt", ": ", merge_lines);
  const Beside beside = read_beside(vocab_json.parent_path());
  constexpr const char* as = " and its merges.txt are not a byte-pair vocabulary: ";
  return read_by(vocab_json, as, [&](const std::string& vocab) {
    return byte_pairs_of(parse_json(vocab), merges, all_added(beside, json::object()));
  });
}

void write_byte_pairs(const BytePairVocabulary& vocabulary, const fs::path& folder) {
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : vocabulary.merges()) merges += merge + "\n";

  make_folder(folder);
  write_file(folder / "vocab.json", byte_pairs_json(vocabulary)["model"]["vocab"].dump());
  write_file(folder / "merges.txt", merges);
}

/// The files that a tokenizer is read from. Byte pairs need the first two alone.
static constexpr std::array tokenizer_files{"vocab.json",        "merges.txt",
                                            "tokenizer.json",    "tokenizer_config.json",
                                            "added_tokens.json", "special_tokens_map.json"};

void check_no_tokenizer(const fs::path& folder) {
  for (const char* name : tokenizer_files)
    PG_CHECK(!fs::exists(folder / name), (folder / name).string(), " is there: name another ",
             "folder with --out, or replace the tokenizer there with --overwrite");
}

void replace_tokenizer(const BytePairVocabulary& vocabulary, const fs::path& folder,
                       bool overwrite) {
  make_folder(folder);
  const Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ::flock(lock.number, LOCK_EX);  // a file system without locks has none
  if (!overwrite) check_no_tokenizer(folder);
  write_byte_pairs(vocabulary, folder);
  for (const char* name : std::span(tokenizer_files).subspan(2)) fs::remove(folder / name);
}

}  // namespace plangrad::nn
