// Token data and its windows. A window's place is a random number that depends on (seed, step,
// sequence), so each rank draws its share alone. Not here: encoding (nn/text/vocabulary.cpp).
// Chapter 02.
#include "nn/data/text_data.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "nn/checkpoint/file.h"

namespace plangrad::nn {

TokenData::TokenData(std::string name, std::span<const std::int32_t> tokens, int vocabulary_size)
    : name_(std::move(name)), vocabulary_size_(vocabulary_size) {
  append(tokens);
}

void TokenData::append(std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    PG_CHECK(tokens[i] >= 0 && tokens[i] < vocabulary_size_, name_, " has token ", tokens[i],
             " at position ", size() + static_cast<std::int64_t>(i), ", outside the vocabulary of ",
             vocabulary_size_, " tokens: use the vocabulary that the data was made with");
  if (vocabulary_size_ <= 1 << 16)
    narrow_.insert(narrow_.end(), tokens.begin(), tokens.end());
  else
    wide_.insert(wide_.end(), tokens.begin(), tokens.end());
}

TokenData TokenData::split(std::int64_t first, std::string name) {
  TokenData rest(std::move(name), {}, vocabulary_size_);
  auto move = [first](auto& from, auto& to) {
    if (from.empty()) return;
    to.assign(from.begin() + first, from.end());
    from.resize(static_cast<std::size_t>(first));
  };
  move(narrow_, rest.narrow_);
  move(wide_, rest.wide_);
  return rest;
}

std::int32_t TokenData::largest() const {
  std::int32_t most = -1;
  for (std::int64_t i = 0; i < size(); ++i) most = std::max(most, (*this)[i]);
  return most;
}

std::uint64_t TokenData::checksum() const {
  std::uint64_t hash = 14695981039346656037ull;
  for (std::int64_t i = 0; i < size(); ++i)
    hash = (hash ^ static_cast<std::uint64_t>((*this)[i])) * 1099511628211ull;
  return hash;
}

void TokenData::append_window(std::int64_t start, std::int64_t context, Batch& batch) const {
  for (std::int64_t i = start; i < start + context; ++i) {
    batch.inputs.push_back((*this)[i]);
    batch.targets.push_back((*this)[i + 1]);
  }
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
  PG_CHECK(size() > context, name_, " has ", counted(size(), "token"), ", a context of ", context,
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

namespace {

/// The value at a place, which counts values, not bytes.
template <class Value = std::uint32_t>
Value word_at(std::string_view bytes, std::size_t at) {
  Value value{};
  std::memcpy(&value, bytes.data() + sizeof(Value) * at, sizeof(Value));
  return value;
}

/// Says what a text is that begins with a mark of UTF-16 or UTF-32; empty without one.
std::string marked_text(std::string_view bytes) {
  const std::uint32_t first = bytes.size() < 4 ? 0 : word_at(bytes, 0);
  const int bits = first == 0xfeff || first == 0xfffe0000 ? 32 : 16;
  if (bits == 16 && !bytes.starts_with("\xff\xfe") && !bytes.starts_with("\xfe\xff")) return "";
  return text("is text of UTF-", bits, ": convert it to UTF-8 by iconv -f UTF-", bits, " -t UTF-8");
}

/// Files of llm.c begin with a number for their kind, a date: that of files of token ids.
constexpr std::uint32_t llmc_ids = 20240520;

/// Whether bytes are token ids of this width: their high parts are all 0, or take few values, as
/// vocabularies have up to 2^18 tokens. Tags between words do so, too, but they are less often 0,
/// and beside a 1 words are as everywhere: most have low ids, which are the frequent ones.
bool are_ids_of(std::size_t width, std::string_view bytes) {
  std::set<std::uint32_t> last, low, high;  // parts: a byte, two, and the rest
  std::size_t others = 0, count = bytes.size() / width, places[5] = {};  // of ids, by 2^15
  for (std::size_t at = 0; at < count; ++at) {
    std::uint32_t id = 0;
    std::memcpy(&id, bytes.data() + width * at, width);
    last.insert(id & 0xff), low.insert(id & 0xffff), high.insert(id >> 16);
    others += (id & 0xffff) > 0;
    ++places[std::min(id >> 15, 4u)];
  }
  if (last.size() == 1) return false;  // as of pairs of an id and 0
  const std::size_t enough = width == 4 ? 8 : 32, zeros = places[0] + places[1];  // few may look so
  const bool is_wide = 10 * zeros > 6 * count || (10 * zeros > count && places[2] < 2 * places[3]);
  return (others >= enough && zeros == count) || (low.size() > 64 && high.size() <= 4 && is_wide);
}

/// The id of 2 bytes that occurs most often, as padding does.
std::uint16_t commonest_id(std::string_view bytes) {
  std::vector<int> count(1 << 16);
  std::uint16_t commonest = 0;
  for (std::size_t at = 0; at < bytes.size() / 2; ++at)
    if (auto id = word_at<std::uint16_t>(bytes, at); ++count[id] > count[commonest]) commonest = id;
  return commonest;
}

/// Whether nearly all values are of ordinary size, of those that do not end with this id. Of floats
/// made of ids, a fourth are; or, if all ids are alike, their sign is one, and their halves alike.
template <class Float>
bool are_floats(std::string_view bytes, std::uint16_t commonest) {
  double tested = 0, ordinary = 0, negative = 0;
  std::set<char> low, high;
  for (std::size_t at = 0; (at + 1) * sizeof(Float) <= bytes.size(); ++at) {
    const std::string_view now = bytes.substr(at * sizeof(Float), sizeof(Float));
    if (word_at<std::uint16_t>(now, sizeof(Float) / 2 - 1) == commonest) continue;
    const Float value = word_at<Float>(now, 0);
    ++tested;
    ordinary += std::abs(value) > 1e-9f && std::abs(value) < 1e9f;
    negative += value < 0;
    low.insert(now[1]);
    high.insert(now.back());
  }
  const bool both_signs = negative > 0.1 * tested && negative < 0.9 * tested;
  const bool unlike = low.size() > 4 * high.size() || high.size() > 4 * low.size();
  return tested >= 32 && ordinary > 0.9 * tested && (both_signs || unlike);
}

/// Says what bytes are of which the first and the second of two differ from those of token ids;
/// looks at all but the commonest id. Ids are numbered by frequency, or at random: their high bytes
/// vary less than the low ones, or all values are alike; and they lie apart from the middle of each
/// half, where floats are.
std::string kind_of_pairs(std::string_view bytes, std::uint16_t commonest) {
  double count[2][256] = {}, alike[2] = {}, pairs = 0, apart = 0, ordinary = 0, negative = 0;
  int common = 0;  // bytes of which both places have more than 1%: of ids, few
  for (std::size_t at = 0; at < bytes.size() / 2; ++at) {
    const auto id = word_at<std::uint16_t>(bytes, at);
    if (id == commonest) continue;
    ++pairs;
    ++count[0][id & 0xff];
    ++count[1][id >> 8];
  }
  for (int byte = 0; byte < 256; ++byte) {
    for (const int place : {0, 1}) alike[place] += count[place][byte] * count[place][byte];
    apart += std::abs(count[0][byte] - count[1][byte]);
    common += std::min(count[0][byte], count[1][byte]) > 0.01 * pairs;
    if (byte > 0x7f) negative += count[1][byte];
    if (byte % 0x80 >= 0x10 && byte % 0x80 < 0x48) ordinary += count[1][byte];  // its exponent
  }
  if (std::ranges::count(count[1], 0.0) < 240 && alike[0] > 4 * alike[1])
    return "looks like big-endian token ids: swap their bytes";
  if (pairs >= 128 && ordinary > 0.9 * pairs && std::abs(negative / pairs - 0.5) < 0.15)
    return "looks like values of float16";
  if (pairs >= 2048 && common > 3 && apart < 0.2 * pairs)
    return "looks like values of 1 byte: write token ids as uint16";
  return "";
}

/// Whether bytes are text of UTF-16 without a byte order mark: they have no control characters, and
/// more than 2% are blanks, or full stops beside Chinese and Japanese characters, which are most.
/// Token ids that number bytes look the same; a file of such ids needs llm.c's header.
///   high: which of two bytes is the higher one
bool is_utf16(std::string_view bytes, std::size_t high) {
  std::size_t blanks = 0, stops = 0, east = 0;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    const int c = (bytes[at + high] & 0xff) << 8 | (bytes[at + 1 - high] & 0xff);
    if (c < '\t' || (c > '\r' && c < ' ') || (c >= 0x7f && c < 0xa0) || c >= 0xfffe) return false;
    blanks += c == ' ' || c == '\t' || c == '\n';
    stops += c == 0x3001 || c == 0x3002;
    east += c >= 0x3040 && c < 0xa000;
  }
  const std::size_t marks = blanks + (8 * east > 3 * bytes.size() ? stops : 0);
  return bytes.size() >= 64 && 100 * marks > bytes.size();
}

/// Says what a .bin file holds if it is no token ids of 2 bytes; empty if it may be such.
std::string other_than_tokens(std::string_view bytes) {
  if (const std::string kind = foreign_kind(bytes); !kind.empty()) return kind;
  const std::uint32_t number = bytes.size() < 4 ? 0 : word_at(bytes, 0);
  if (number / 10'000 == 2024)
    return text("is a file of llm.c of the kind ", number, "; only ", llmc_ids,
                " has ids of 2 bytes");
  const std::uint64_t last = number + 1ull;  // the place in the table of the last sample's end
  if (number > 0 && 4 * last + 4 <= bytes.size() && word_at(bytes, last) == bytes.size())
    return "holds samples behind a table of places: write the ids of all samples alone";
  if (__builtin_bswap32(number) == llmc_ids) return "is a file of llm.c from a big-endian machine";
  const std::string_view start = bytes.substr(0, 1 << 16);  // enough to see many ids
  if (start.size() > 10 && word_at(start, 1) == 0 && start.substr(8, 2) == "{\"")
    return "is a safetensors file";
  if (start.size() >= 64 && valid_utf8_prefix(start) + 4 > start.size() &&
      std::ranges::none_of(start, [](char c) { return c >= 0 && c < '\t'; }))
    return "is text: give it a name that does not end in .bin";
  if (start.size() >= 64 && 4 * std::ranges::count(start, '\0') > std::ssize(start))
    if (const std::string kind = marked_text(start); !kind.empty())  // and most pairs have a zero
      return kind + ", under a name without .bin";
  if (bytes.size() >= 128 && bytes.substr(2) == bytes.substr(0, bytes.size() - 2))
    return "holds the same id everywhere, from which nothing can be learnt: write it anew";
  const std::uint16_t commonest = commonest_id(start);
  if (are_ids_of(3, start)) return "looks like token ids of 3 bytes: write them as uint16";
  if (are_ids_of(4, start)) return "looks like token ids of 4 or 8 bytes: write them as uint16";
  if (start.size() % 4 == 0 && are_ids_of(4, std::string(start.rbegin(), start.rend())))
    return "looks like big-endian token ids of 4 or 8 bytes: write them as uint16";
  if (are_floats<float>(start, commonest)) return "looks like values of float32 or bfloat16";
  if (are_floats<double>(start, commonest)) return "looks like values of float64";
  if (const std::string kind = kind_of_pairs(start, commonest); !kind.empty()) return kind;
  for (const std::size_t high : {1, 0})
    if (is_utf16(start, high))
      return text("looks like text of UTF-16: run iconv -f UTF-16", high ? "LE" : "BE",
                  " -t UTF-8");
  return "";
}

/// The token ids of a .bin file, 2 bytes each: what follows a header of llm.c, or all.
std::string_view ids_in(const std::filesystem::path& path, std::string_view bytes) {
  constexpr std::size_t header = 1024;
  if (bytes.size() >= 4 && word_at(bytes, 0) == llmc_ids) {
    PG_CHECK(bytes.size() >= header, path.string(), " is cut short: expected llm.c's header of ",
             header, " bytes, found ", bytes.size());
    PG_CHECK(word_at(bytes, 1) == 1, path.string(), " is a file of llm.c of version ",
             word_at(bytes, 1), ", expected 1: write it anew with llm.c's own scripts");
    const std::uint64_t count = word_at(bytes, 2);
    PG_CHECK(bytes.size() == header + 2 * count, path.string(), " has ", bytes.size() - header,
             " bytes behind its header, which says ", count, " tokens of 2 bytes: it is cut short ",
             "or damaged");
    return bytes.substr(header);
  }
  const std::string other = other_than_tokens(bytes);
  PG_CHECK(other.empty(), path.string(), ' ', other,
           "; a .bin file holds token ids as uint16, as nanoGPT or llm.c write them",
           other.starts_with("looks ") ? ". If it does, begin it with llm.c's header, which says so"
                                       : "");
  PG_CHECK(bytes.size() % 2 == 0, path.string(), " has an odd number of bytes, ", bytes.size(),
           ": expected token ids of 2 bytes each, so the file is cut short or of another kind");
  return bytes;
}

/// A file's name in messages. Servers' errors are short: the name of such a text says all of it.
std::string name_of(const std::filesystem::path& path, std::string_view bytes) {
  const bool is_text = std::ranges::none_of(bytes, [](char c) { return c >= 0 && c < '\t'; });
  if (bytes.size() >= 200 || !is_text) return path.string();
  bytes = bytes.substr(0, bytes.find_last_not_of(" \r\n") + 1);
  return text(path.string(), " (its whole content is: ", bytes, ')');
}

/// Adds what a text or a .bin file holds to data of this name.
///   vocabulary: null for token ids without one
TokenData data_of(const std::string& name, const std::filesystem::path& path,
                  const std::string& bytes, const Vocabulary* vocabulary, bool are_ids) {
  TokenData data(name, {}, vocabulary ? vocabulary->size() : 1 << 16);
  constexpr std::size_t part = 1 << 20;  // bytes that become tokens at a time
  if (!are_ids) {
    vocabulary->encode_parts(bytes, [&](auto tokens) { data.append(tokens); });
    return data;
  }
  const std::string_view ids = ids_in(path, bytes);
  for (std::size_t at = 0; at < ids.size(); at += part) {
    const std::string_view now = ids.substr(at, part);
    std::vector<std::uint16_t> tokens(now.size() / 2);
    std::memcpy(tokens.data(), now.data(), now.size());
    data.append(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
  }
  return data;
}

}  // namespace

void check_text(const std::filesystem::path& path, std::string_view bytes,
                const std::string& vocabulary) {
  const bool has_zero = bytes.substr(0, 1 << 16).find('\0') != bytes.npos;
  const std::string_view mark = bytes.substr(0, 32);  // its last character may be cut
  const bool is_utf8 = valid_utf8_prefix(mark) + 4 > mark.size();
  std::string kind = foreign_kind(bytes), ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::set<std::string> pages{".html", ".htm", ".xml", ".json", ".jsonl", ".md"};
  const bool is_page = kind.starts_with("is a web page");
  if (is_page && !pages.contains(ending))
    kind += "; to train on it as it is, end its name in .html, .htm, .xml, .json, .jsonl or .md";
  else if (is_page || (!has_zero && is_utf8))
    kind.clear();
  if (kind.empty()) kind = marked_text(bytes);
  constexpr const char* cure = "convert it to UTF-8, or use the vocabulary \"bytes\"";
  if (kind.empty() && has_zero && vocabulary != "bytes")
    kind = text("has bytes of value 0: name token ids of 2 bytes .bin; if it is text of UTF-16 ",
                "without a mark, run iconv -f UTF-16LE -t UTF-8 (or UTF-16BE); else ", cure);
  PG_CHECK(kind.empty(), path.string(), ' ', kind);
  const std::size_t valid = vocabulary == "chars" ? valid_utf8_prefix(bytes) : bytes.size();
  PG_CHECK(valid == bytes.size(), path.string(), " is not valid UTF-8 at byte ", valid, ": ", cure);
}

TextData load_text_data(const std::filesystem::path& data, const std::filesystem::path& validation,
                        const std::string& vocabulary) {
  bool tokens = data.extension() == ".bin", split = validation.empty();
  PG_CHECK(split || tokens == (validation.extension() == ".bin"), data.string(), " and ",
           validation.string(), " are of different kinds: give two .bin files or two texts");
  PG_CHECK(!tokens || vocabulary != "chars", data.string(), " holds token ids, not ",
           "characters: give the vocab.json that they were made with, or the text itself");

  const std::string bytes = read_file(data, most::data);
  const std::string validation_bytes = split ? "" : read_file(validation, most::data);
  if (!tokens) {
    check_text(data, bytes, vocabulary);
    check_text(validation, validation_bytes, vocabulary);
  }
  std::shared_ptr<const Vocabulary> made;
  try {
    if (!tokens || !vocabulary.empty()) made = make_vocabulary(vocabulary, bytes, validation_bytes);
  } catch (const OtherTokenizer& error) {
    if (tokens) throw;
    throw Error(text(error.what(), ". Instead of a text, train on its ids, which Hugging Face's ",
                     "tokenizer makes: a .bin file of uint16"));
  }

  const std::string name = name_of(data, bytes);
  TokenData train = data_of("the training data " + name, data, bytes, made.get(), tokens);
  TokenData validate = split
                           ? train.split(train.size() * 9 / 10,
                                         "the validation data " + name + ", the last tenth of it,")
                           : data_of("the validation data " + name_of(validation, validation_bytes),
                                     validation, validation_bytes, made.get(), tokens);
  const int size = made ? made->size() : std::max(train.largest(), validate.largest()) + 1;
  for (TokenData* part : {&train, &validate}) part->set_vocabulary_size(size);
  return {made, std::move(train), std::move(validate)};
}

}  // namespace plangrad::nn
