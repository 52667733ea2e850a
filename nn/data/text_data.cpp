// Token data and its windows. A window's place is a random number that depends on (seed, step,
// sequence), so each rank draws its share alone. Not here: encoding (nn/text/vocabulary.cpp).
// Chapter 02.
#include "nn/data/text_data.h"

#include <algorithm>

#include "autograd/random.h"
#include "nn/checkpoint/file.h"

namespace plangrad::nn {

TokenData::TokenData(std::string name, std::vector<std::int32_t> tokens, int vocabulary_size)
    : name_(std::move(name)), vocabulary_size_(vocabulary_size), tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    PG_CHECK(tokens_[i] >= 0 && tokens_[i] < vocabulary_size, name_, " has token ", tokens_[i],
             " at position ", i, ", outside the vocabulary of ", vocabulary_size,
             " tokens: use the vocabulary that the data was made with");
}

std::uint64_t TokenData::checksum() const {
  std::uint64_t hash = 14695981039346656037ull;
  for (std::int32_t id : tokens_) hash = (hash ^ static_cast<std::uint64_t>(id)) * 1099511628211ull;
  return hash;
}

void TokenData::append_window(std::int64_t start, std::int64_t context, Batch& batch) const {
  auto from = tokens_.begin() + start, to = from + context;
  batch.inputs.insert(batch.inputs.end(), from, to);
  batch.targets.insert(batch.targets.end(), from + 1, to + 1);
}

Batch TokenData::batch(std::uint64_t seed, std::int64_t step, std::int64_t first, std::int64_t last,
                       std::int64_t context) const {
  evaluation_windows(context);  // checks that one window fits
  PG_CHECK(step >= 0 && first >= 0 && first <= last, "no batch has step ", step, " and sequences ",
           first, " to ", last);
  RandomKey key(seed, "data");
  Batch batch;
  for (std::int64_t i = first; i < last; ++i) {
    // Steps are 2^32 apart in the sequence of random numbers, so that sequence i of a step stays
    // the same in a larger batch.
    std::uint64_t index = (static_cast<std::uint64_t>(step) << 32) + static_cast<std::uint64_t>(i);
    auto start = uniform_integer(key, index, static_cast<std::uint64_t>(size() - context));
    append_window(static_cast<std::int64_t>(start), context, batch);
  }
  return batch;
}

std::int64_t TokenData::evaluation_windows(std::int64_t context) const {
  PG_CHECK(context >= 1, "a context of ", context, " tokens is too short: it needs at least 1");
  PG_CHECK(size() > context, name_, " has ", size(), " tokens, a context of ", context,
           " needs at least ", context + 1, ": give more text or a shorter context");
  return (size() - 1) / context;
}

Batch TokenData::evaluation_batch(std::int64_t first, std::int64_t last,
                                  std::int64_t context) const {
  std::int64_t windows = evaluation_windows(context);
  PG_CHECK(first >= 0 && first <= last && last <= windows, name_, " has no windows ", first, " to ",
           last, ", only ", windows);
  Batch batch;
  for (std::int64_t i = first; i < last; ++i) append_window(i * context, context, batch);
  return batch;
}

/// Reads the token ids of a .bin file.
static std::vector<std::int32_t> read_token_file(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  PG_CHECK(bytes.size() % 2 == 0, path.string(), " has an odd number of bytes, ", bytes.size(),
           ": expected token ids of 2 bytes each, so the file is cut short or of another kind");
  std::vector<std::int32_t> tokens;
  tokens.reserve(bytes.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); i += 2)
    tokens.push_back(static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1])
                                                                << 8);
  return tokens;
}

static bool holds_tokens(const std::filesystem::path& path) { return path.extension() == ".bin"; }

static void check_utf8(const std::filesystem::path& path, std::string_view text) {
  std::size_t valid = valid_utf8_prefix(text);
  PG_CHECK(valid == text.size(), path.string(), " is not valid UTF-8 at byte ", valid,
           ": convert it to UTF-8, or use the vocabulary \"bytes\"");
}

TextData load_text_data(const std::filesystem::path& data, const std::filesystem::path& validation,
                        const std::string& vocabulary) {
  bool tokens = holds_tokens(data), split = validation.empty();
  PG_CHECK(split || tokens == holds_tokens(validation), data.string(), " and ", validation.string(),
           " are of different kinds: give two .bin files or two texts");
  PG_CHECK(!tokens || vocabulary != "chars", data.string(), " holds token ids, not ",
           "characters: give the vocab.json that they were made with, or the text itself");

  std::string data_text = tokens ? "" : read_file(data);
  std::string validation_text = tokens || split ? "" : read_file(validation);
  if (vocabulary == "chars") {
    check_utf8(data, data_text);
    check_utf8(validation, validation_text);
  }
  // Make a vocabulary of characters from both files.
  std::shared_ptr<const Vocabulary> made;
  if (!tokens || !vocabulary.empty())
    made = make_vocabulary(vocabulary, data_text + validation_text);

  auto encode = [&](const std::string& text, const std::filesystem::path& path) {
    return tokens ? read_token_file(path) : made->encode(text);
  };
  std::vector<std::int32_t> train = encode(data_text, data), validate;
  if (split) {
    auto cut = train.begin() + static_cast<std::ptrdiff_t>(train.size() * 9 / 10);
    validate.assign(cut, train.end());
    train.erase(cut, train.end());
  } else {
    validate = encode(validation_text, validation);
  }

  int size = made ? made->size() : 0;
  if (!made) {
    for (const auto* all : {&train, &validate})
      for (std::int32_t token : *all) size = std::max(size, token + 1);
  }
  std::string tenth = split ? ", the last tenth of it," : "";
  return {made, TokenData("the training data " + data.string(), std::move(train), size),
          TokenData("the validation data " + (split ? data : validation).string() + tenth,
                    std::move(validate), size)};
}

}  // namespace plangrad::nn
