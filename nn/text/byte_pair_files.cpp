// Byte-pair vocabularies as GPT-2's two files, vocab.json and merges.txt, in and out.
// Not here: whether tokens and merges fit together, which the vocabulary checks (byte_pair.cpp).
// Chapter 02.
#include <nlohmann/json.hpp>
#include <sstream>

#include "nn/checkpoint/file.h"
#include "nn/text/byte_pair.h"

namespace paragrad::nn {

namespace {

/// {"token": id} as a list by id.
std::vector<std::string> tokens_by_id(const nlohmann::json& vocab) {
  std::vector<std::string> tokens(vocab.size());
  std::vector<bool> taken(vocab.size());
  for (const auto& [token, value] : vocab.items()) {
    auto id = value.get<std::int64_t>();
    PG_CHECK(id >= 0 && id < static_cast<std::int64_t>(tokens.size()) && !taken[id], "token \"",
             token, "\" has id ", id, ", expected each of 0 to ", tokens.size() - 1, " once");
    taken[id] = true;
    tokens[id] = token;
  }
  return tokens;
}

/// The lines of merges.txt without its first, "#version: 0.2".
std::vector<std::string> merge_lines(const std::string& file) {
  std::istringstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) lines.push_back(line);
  }
  return lines;
}

}  // namespace

BytePairVocabulary read_byte_pairs(const std::filesystem::path& vocab_json) {
  auto merges = vocab_json.parent_path() / "merges.txt";
  std::string vocab_text = read_file(vocab_json), merges_text = read_file(merges);
  try {
    auto vocab = nlohmann::json::parse(vocab_text);
    PG_CHECK(vocab.is_object(), "expected an object {\"token\": id, ...}");
    return BytePairVocabulary(tokens_by_id(vocab), merge_lines(merges_text));
  } catch (const std::exception& problem) {
    throw Error(text(vocab_json.string(),
                     " and its merges.txt are no byte-pair vocabulary: ", problem.what()));
  }
}

void write_byte_pairs(const BytePairVocabulary& vocabulary, const std::filesystem::path& folder) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int id = 0; id < vocabulary.size(); ++id) vocab[vocabulary.tokens()[id]] = id;
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : vocabulary.merges()) merges += merge + "\n";

  make_folder(folder);
  write_file(folder / "vocab.json", vocab.dump());
  write_file(folder / "merges.txt", merges);
}

}  // namespace paragrad::nn
