// Vocabularies of characters and of bytes, and the choice of one by name or by its saved form.
// Draws tokens by inverting the running sum of probabilities; top-k selects without sorting.
// Not here: byte pairs (nn/text/byte_pair.cpp). Chapter 02.
#include "nn/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "nn/text/byte_pair.h"

namespace plangrad::nn {

/// Calls take(code point, byte offset) for each code point of `text`.
template <class Take>
static void for_each_code_point(std::string_view text, Take&& take) {
  for (std::size_t at = 0; at < text.size();) {
    CodePoint point = first_code_point(text.substr(at));
    PG_CHECK(point.length > 0, "the text is not valid UTF-8 at byte ", at,
             ": convert it to UTF-8, or use the vocabulary \"bytes\"");
    take(point.value, at);
    at += static_cast<std::size_t>(point.length);
  }
}

/// Describes a character: "U+00E9 'é'"; a control character by number only, to stay on one line.
static std::string describe(char32_t c) {
  const std::string code = fmt::format("U+{:04X}", static_cast<std::uint32_t>(c));
  return c > 0x20 && (c < 0x7F || c > 0xA0) ? text(code, " '", to_utf8(c), "'") : code;
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (std::int32_t token : tokens) {
    PG_CHECK(token >= 0 && token < size(), "token ", token, " is outside the vocabulary of ",
             size(), " tokens: decode with the vocabulary that encoded the tokens");
    text += bytes_of(token);
  }
  return text;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> all;
  encode_parts(text, [&](auto tokens) { all.insert(all.end(), tokens.begin(), tokens.end()); });
  return all;
}

CharVocabulary::CharVocabulary(std::string_view corpus, std::string_view more) {
  PG_CHECK(!corpus.empty(), "a vocabulary of characters needs text to take them from");
  for (std::string_view text : {corpus, more})
    for_each_code_point(text, [&](char32_t c, std::size_t) {
      if (c >= ids_.size()) ids_.resize(c + 1, -1);
      ids_[c] = 0;
    });
  for (char32_t c = 0; c < ids_.size(); ++c) {
    if (ids_[c] < 0) continue;
    ids_[c] = static_cast<std::int32_t>(characters_.size());
    characters_.push_back(to_utf8(c));
  }
}

constexpr std::size_t tokens_at_a_time = 1 << 16;

void CharVocabulary::encode_parts(std::string_view text, const TakeTokens& take) const {
  std::vector<std::int32_t> tokens;
  for_each_code_point(text, [&](char32_t c, std::size_t at) {
    const std::int32_t id = c < ids_.size() ? ids_[c] : -1;
    PG_CHECK(id >= 0, "character ", describe(c), " at byte ", at, " is not among the ", size(),
             " characters of the vocabulary: leave it out, or make a vocabulary from text with it");
    tokens.push_back(id);
    if (tokens.size() < tokens_at_a_time) return;
    take(tokens);
    tokens.clear();
  });
  take(tokens);
}

nlohmann::json CharVocabulary::to_json() const {
  return {{"kind", name()}, {"characters", fmt::format("{}", fmt::join(characters_, ""))}};
}

void ByteVocabulary::encode_parts(std::string_view text, const TakeTokens& take) const {
  for (std::size_t at = 0; at < text.size(); at += tokens_at_a_time) {
    const std::string_view part = text.substr(at, tokens_at_a_time);
    const auto* bytes = reinterpret_cast<const unsigned char*>(part.data());
    take(std::vector<std::int32_t>(bytes, bytes + part.size()));
  }
}

nlohmann::json ByteVocabulary::to_json() const { return {{"kind", name()}}; }

std::unique_ptr<Vocabulary> make_vocabulary(const std::string& spec, std::string_view corpus,
                                            std::string_view more) {
  if (spec == "chars") return std::make_unique<CharVocabulary>(corpus, more);
  if (spec == "bytes") return std::make_unique<ByteVocabulary>();
  PG_CHECK(std::filesystem::exists(spec), "vocabulary \"", spec,
           "\" is neither \"chars\" nor \"bytes\" nor a file: use one of these, "
           "or the path of a vocab.json or of a folder with a tokenizer");
  if (std::filesystem::is_directory(spec)) return read_tokenizer(spec);
  if (spec.ends_with("tokenizer.json")) return read_tokenizer_json(spec);
  return std::make_unique<BytePairVocabulary>(read_byte_pairs(spec));
}

std::unique_ptr<Vocabulary> load_vocabulary(const nlohmann::json& saved) try {
  auto kind = saved.at("kind").get<std::string>();
  if (kind == "chars")
    return std::make_unique<CharVocabulary>(saved.at("characters").get<std::string>());
  if (kind == "bytes") return std::make_unique<ByteVocabulary>();
  PG_CHECK(kind == "byte-pairs", "the saved vocabulary is of kind \"", kind,
           "\", expected \"chars\", \"bytes\" or \"byte-pairs\"");
  std::vector<AddedToken> added;
  for (const nlohmann::json& token : saved.value("added", nlohmann::json::array()))
    added.push_back(added_token(token));
  return std::make_unique<BytePairVocabulary>(saved.at("tokens").get<std::vector<std::string>>(),
                                              saved.at("merges").get<std::vector<std::string>>(),
                                              added);
} catch (const nlohmann::json::exception& problem) {
  throw Error(text("the saved vocabulary can't be read (", problem.what(),
                   "): save it again with the program that made it"));
}

/// The `count` likeliest tokens, in no order; ties go to lower numbers.
static std::vector<std::size_t> likeliest(const std::vector<double>& logits, std::size_t count) {
  std::vector<std::size_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  auto before = [&](std::size_t a, std::size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  auto end = tokens.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != tokens.end()) std::nth_element(tokens.begin(), end, tokens.end(), before);
  tokens.erase(end, tokens.end());
  return tokens;
}

std::int32_t sample_token(const std::vector<double>& logits, const SampleSettings& settings,
                          RandomKey key, std::uint64_t index) {
  PG_CHECK(settings.temperature >= 0, "the temperature must not be negative, got ",
           settings.temperature);
  PG_CHECK(settings.top_k >= 0, "top-k must not be negative, got ", settings.top_k);
  PG_CHECK(!logits.empty(), "there are no logits to choose from");
  for (double logit : logits)
    PG_CHECK(std::isfinite(logit), "a logit is ", logit, "; was the model's training loss finite?");
  auto best = std::max_element(logits.begin(), logits.end());
  if (settings.temperature == 0) return static_cast<std::int32_t>(best - logits.begin());

  std::size_t count = static_cast<std::size_t>(settings.top_k);
  if (count == 0) count = logits.size();
  std::vector<std::size_t> tokens = likeliest(logits, std::min(count, logits.size()));
  // [snippet draw]
  std::vector<double> sums;  // of the probabilities, up to a factor
  double sum = 0;
  for (std::size_t token : tokens)
    sums.push_back(sum += std::exp((logits[token] - *best) / settings.temperature));
  // Choose the first token whose sum exceeds the random number.
  double point = uniform(key, index) * sum;
  auto chosen = std::upper_bound(sums.begin(), sums.end(), point);
  return static_cast<std::int32_t>(tokens[static_cast<std::size_t>(chosen - sums.begin())]);
  // [end snippet]
}

}  // namespace plangrad::nn
