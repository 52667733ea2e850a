// SafetensorsFile: opens a file, checks every rule of the format, and converts values to floats.
// Not here: writing (safetensors_write.cpp). Chapter 02.
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "nn/checkpoint/safetensors.h"

namespace plangrad::nn {
namespace {

using namespace format;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

/// Reads the header's length and text, which it checks against the limit and the file.
std::vector<std::byte> read_header(const OpenFile& file) {
  const std::string path = file.path().string();
  PG_CHECK(file.size() >= length_bytes, path, ": file is cut short: expected at least ",
           length_bytes, " bytes, found ", file.size());
  std::vector<std::byte> header(std::min<std::uint64_t>(file.size(), 512));
  file.read(0, header);
  const std::string_view start(reinterpret_cast<const char*>(header.data()), header.size());
  PG_CHECK(foreign_kind(start).empty(), path, ' ', foreign_kind(start));
  std::uint64_t length = 0;
  std::memcpy(&length, header.data(), length_bytes);
  PG_CHECK(length <= header_limit, path, ": header length is ", length,
           " bytes, the format allows ", header_limit, "; is this a safetensors file?");
  PG_CHECK(length <= file.size() - length_bytes, path, ": file is cut short: the header needs ",
           length_bytes + length, " bytes, found ", file.size());
  header.resize(length_bytes + length);
  file.read(0, header);
  return header;
}

/// A tensor as the header describes it, before its place in the data has been checked.
struct Claim {
  std::string name, dtype;
  std::vector<std::int64_t> sizes, offsets;  // offsets: begin and end, from the start of the data
};

/// Follows the header while it is parsed, and keeps tensors and metadata alone: a tree of all that
/// the JSON holds would take twenty times the memory of its text. Rejects equal keys.
class Header : public nlohmann::json_sax<json> {
 public:
  explicit Header(const std::string& path) : path_(path) {}

  std::vector<Claim> tensors;
  std::map<std::string, std::string> metadata;

  bool start_object(std::size_t) override {
    if (depth_ == 1) fields_.clear();
    if (depth_ > 1) scalar("object");
    return begin();
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || !list()) scalar("array");
    return begin();
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata()) end_tensor();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& name) override;
  bool string(std::string& word) override { return scalar("string", &word); }
  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("boolean"); }
  bool number_integer(std::int64_t) override { return scalar("number"); }  // it is negative
  bool number_unsigned(std::uint64_t number) override { return scalar("number", nullptr, number); }
  bool number_float(double, const std::string&) override { return scalar("number"); }
  bool binary(json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool in_metadata() const { return name_ == metadata_key; }
  std::string where() const { return path_ + ": tensor " + in_quotes(name_); }

  /// The list that the field holds; null for other fields.
  std::vector<std::int64_t>* list() {
    if (in_metadata() || tensors.empty()) return nullptr;
    return field_ == "shape"          ? &tensors.back().sizes
           : field_ == "data_offsets" ? &tensors.back().offsets
                                      : nullptr;
  }
  bool begin() {
    constexpr int deepest = 8;
    PG_CHECK(++depth_ <= deepest, path_, ": header is nested deeper than the format ever is");
    return true;
  }
  void check_object() const {
    PG_CHECK(!in_metadata(), path_, ": __metadata__ is not a map of strings to strings");
    throw Error(where() + " is not described by an object");
  }
  void check_field(const char* type);
  bool scalar(const char* type, const std::string* word = nullptr,
              std::uint64_t number = UINT64_MAX);
  void end_tensor();

  const std::string& path_;
  int depth_ = 0;  // 1: among the tensors, 2: in one of them, 3: in a list of numbers
  std::string name_, field_;
  std::set<std::string> names_, fields_;
};

bool Header::key(std::string& name) {
  constexpr std::size_t most_tensors = 1 << 18, most_fields = 1 << 16;
  if (depth_ > 2) return true;  // of a field that is not ours
  std::set<std::string>& known = depth_ == 1 ? names_ : fields_;
  PG_CHECK(known.insert(name).second, path_, ": header has the key ", in_quotes(name), " twice");
  PG_CHECK(names_.size() <= most_tensors && fields_.size() <= most_fields, path_,
           ": header has more than ", most_tensors, " tensors, or more than ", most_fields,
           " fields in one");
  (depth_ == 1 ? name_ : field_) = name;
  if (depth_ == 1 && !in_metadata()) tensors.push_back({name, {}, {}, {}});
  return true;
}

/// Rejects a value of another type than that of its field; a field that is not ours may hold any.
void Header::check_field(const char* type) {
  PG_CHECK(!in_metadata(), path_,
           ": __metadata__ is not a map of strings to strings: ", in_quotes(field_), " is a ",
           type);
  PG_CHECK(field_ != "dtype", where(), ": dtype is not a string");
  PG_CHECK(!list(), where(), ": ", field_, " is not a list");
}

bool Header::scalar(const char* type, const std::string* word, std::uint64_t number) {
  constexpr std::size_t most_sizes = 64;
  if (depth_ == 1) check_object();
  if (depth_ == 2 && word && in_metadata())
    metadata[field_] = *word;
  else if (depth_ == 2 && word && field_ == "dtype")
    tensors.back().dtype = *word;
  else if (depth_ == 2)
    check_field(type);
  if (std::vector<std::int64_t>* numbers = depth_ == 3 ? list() : nullptr) {
    PG_CHECK(number <= INT64_MAX, where(), ": ", field_,
             " holds something other than a whole number from 0 to 2^63 - 1");
    PG_CHECK(numbers->size() < most_sizes, where(), ": ", field_, " has more than ", most_sizes,
             " numbers");
    numbers->push_back(static_cast<std::int64_t>(number));
  }
  return true;
}

void Header::end_tensor() {
  for (const char* field : {"dtype", "shape", "data_offsets"})
    PG_CHECK(fields_.contains(field), where(), " has no ", field);
  const auto& [name, dtype, sizes, offsets] = tensors.back();
  PG_CHECK(offsets.size() == 2, where(), ": data_offsets has ", offsets.size(),
           " numbers, expected begin and end");
  PG_CHECK(offsets[0] <= offsets[1], where(), " ends at byte ", offsets[1],
           ", before it begins at byte ", offsets[0]);
  const std::int64_t expected = checked_byte_count(where(), dtype, sizes);
  PG_CHECK(offsets[1] - offsets[0] == expected, where(), ": ", dtype, " of shape ", Shape(sizes),
           " needs ", expected, " bytes, data_offsets give ", offsets[1] - offsets[0]);
}

/// Parses the header. Rejects zero bytes, at which the JSON parser would stop.
Header parse_header(const std::string& path, std::string_view text) {
  PG_CHECK(text.starts_with('{'), path, ": header does not begin with '{'");
  PG_CHECK(text.find('\0') == text.npos, path, ": header holds a zero byte");
  Header header(path);
  PG_CHECK(json::sax_parse(text, &header), path,
           ": header is not valid JSON in UTF-8; the file is damaged");
  return header;
}

/// Sorts the tensors by place and checks that they fill the file from `data_start` to its end.
void check_layout(const std::string& path, std::vector<Claim>& claims, std::uint64_t data_start,
                  std::uint64_t file_size) {
  std::ranges::sort(claims, {}, [](const Claim& c) { return std::tie(c.offsets, c.name); });
  std::int64_t end = 0;
  for (const Claim& claim : claims) {
    const std::int64_t begin = claim.offsets[0];
    PG_CHECK(begin >= end, path, ": tensor ", in_quotes(claim.name), " begins at byte ", begin,
             " and overlaps the one before it, which ends at byte ", end);
    PG_CHECK(begin <= end, path, ": bytes ", end, " to ", begin,
             " of the data are a hole: no tensor owns them");
    end = claim.offsets[1];
  }
  std::uint64_t expected = data_start + static_cast<std::uint64_t>(end);
  PG_CHECK(file_size >= expected, path, ": file is cut short: expected ", expected,
           " bytes, found ", file_size, "; copy or download it again");
  PG_CHECK(file_size == expected, path, ": file continues after its last tensor: expected ",
           expected, " bytes, found ", file_size);
}

/// IEEE half precision: 1 bit of sign, 5 of exponent, 10 of mantissa. Every value is a float.
float float_of_half(std::uint16_t half) {
  std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 0) {  // zero and subnormals: multiples of 2^-24
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | exponent << 23 | mantissa << 13);
}

constexpr std::size_t part_bytes = 1 << 20;  // read at a time

/// Reads elements of type T, and converts each to float.
template <class T, class Convert>
std::vector<float> converted(const SafetensorsEntry& entry, Convert convert) {
  std::vector<float> result;
  result.reserve(entry.size / sizeof(T));
  entry.read_parts([&](Bytes part) {
    for (std::size_t at = 0; at < part.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, part.data() + at, sizeof(T));
      result.push_back(convert(value));
    }
  });
  return result;
}

}  // namespace

std::vector<std::byte> SafetensorsEntry::bytes() const {
  std::vector<std::byte> all(size);
  file->read(begin, all);
  return all;
}

void SafetensorsEntry::read_parts(const std::function<void(Bytes)>& take) const {
  std::vector<std::byte> part(std::min(size, part_bytes));
  for (std::size_t at = 0; at < size; at += part.size()) {
    part.resize(std::min(part.size(), size - at));
    file->read(begin + at, part);
    take(part);
  }
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const auto file = std::make_shared<const OpenFile>(path);
  header_ = std::make_shared<const std::vector<std::byte>>(read_header(*file));
  const auto* characters = reinterpret_cast<const char*>(header_->data());
  Header found = parse_header(path, {characters + length_bytes, header_->size() - length_bytes});
  check_layout(path, found.tensors, header_->size(), file->size());
  metadata_ = std::move(found.metadata);
  for (const auto& [name, dtype, sizes, offsets] : found.tensors)
    entries_.push_back({name, dtype, Shape(sizes),
                        static_cast<std::size_t>(offsets[1] - offsets[0]), file,
                        header_->size() + static_cast<std::uint64_t>(offsets[0])});
}

std::vector<float> to_floats(const SafetensorsEntry& entry) {
  auto cast = [](auto value) { return static_cast<float>(value); };
  if (entry.dtype == "F32") return converted<float>(entry, cast);
  if (entry.dtype == "F64") return converted<double>(entry, cast);
  if (entry.dtype == "BF16") return converted<bf16>(entry, cast);
  if (entry.dtype == "F16") return converted<std::uint16_t>(entry, float_of_half);
  throw Error("tensor " + format::in_quotes(entry.name) + " holds " + entry.dtype +
              ", expected F32, F64, F16 or BF16");
}

}  // namespace plangrad::nn
