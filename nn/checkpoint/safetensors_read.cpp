// SafetensorsFile: opens a file, checks every rule of the format, and converts values to floats.
// Not here: writing (safetensors_write.cpp).
// Chapter 02.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "autograd/error.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/safetensors.h"

namespace plangrad::nn {
namespace {

using namespace format;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

/// Maps the whole file; `owner` keeps the mapping alive.
Bytes map_file(const std::string& path, std::shared_ptr<const void>& owner) {
  check_regular(path);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number < 0) {
    const std::string why = system_message();
    check_regular(path);  // a run that saves may just have removed it
    throw Unreadable(text(path, ": can't be opened: ", why));
  }
  struct stat status = {};
  PG_CHECK(::fstat(file.number, &status) == 0, path, ": can't be read: ", system_message());
  auto size = static_cast<std::size_t>(status.st_size);
  PG_CHECK(size >= length_bytes, path, ": file is cut short: expected at least ", length_bytes,
           " bytes, found ", size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (start == MAP_FAILED)
    throw Unreadable(text(path, ": can't be mapped into memory: ", system_message()));
  owner = {start, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); }};
  return {static_cast<const std::byte*>(start), size};
}

/// Returns the header's text, and checks its length against the limit and the file.
std::string_view header_text(const std::string& path, Bytes file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), length_bytes);
  PG_CHECK(length <= header_limit, path, ": header length is ", length,
           " bytes, the format allows ", header_limit, "; is this a safetensors file?");
  PG_CHECK(length <= file.size() - length_bytes, path, ": file is cut short: the header needs ",
           length_bytes + length, " bytes, found ", file.size());
  std::string_view text(reinterpret_cast<const char*>(file.data()) + length_bytes, length);
  PG_CHECK(text.starts_with('{'), path, ": header does not begin with '{'");
  return text;
}

/// Follows the header's structure. Rejects what nests too deep, and equal keys, of which the JSON
/// parser would keep the last. (The parser's own callbacks take n^2 steps for n tensors.)
class Structure : public nlohmann::json_sax<json> {
 public:
  explicit Structure(const std::string& path) : path_(path) {}

  bool start_object(std::size_t) override { return begin(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override {
    PG_CHECK(seen_.back().insert(name).second, path_, ": header has the key ", in_quotes(name),
             " twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }

 private:
  bool begin() {
    constexpr std::size_t deepest = 8;
    PG_CHECK(seen_.size() < deepest, path_, ": header is nested deeper than the format ever is");
    seen_.emplace_back();
    return true;
  }
  bool end() {
    seen_.pop_back();
    return true;
  }

  const std::string& path_;
  std::vector<std::set<std::string>> seen_;  // keys of what is open at each depth
};

/// Parses the header. Rejects zero bytes, at which the JSON parser would stop.
json parse_header(const std::string& path, std::string_view text) {
  PG_CHECK(text.find('\0') == text.npos, path, ": header holds a zero byte");
  Structure structure(path);
  PG_CHECK(json::sax_parse(text, &structure), path,
           ": header is not valid JSON in UTF-8; the file is damaged");
  return json::parse(text);
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const json& metadata) {
  PG_CHECK(metadata.is_object(), path, ": __metadata__ is not a map of strings to strings");
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : metadata.items()) {
    PG_CHECK(value.is_string(), path,
             ": __metadata__ is not a map of strings to strings: ", in_quotes(key), " is a ",
             value.type_name());
    result[key] = value.get<std::string>();
  }
  return result;
}

/// Reads the field `key`, a list of whole numbers from 0 to 2^63 - 1.
std::vector<std::int64_t> whole_numbers(const std::string& where, const json& info,
                                        const char* key) {
  PG_CHECK(info.contains(key), where, " has no ", key);
  const json& list = info[key];
  PG_CHECK(list.is_array(), where, ": ", key, " is not a list");
  std::vector<std::int64_t> result;
  for (const json& number : list) {
    PG_CHECK(number.is_number_unsigned() && number.get<std::uint64_t>() <= INT64_MAX, where, ": ",
             key, " holds something other than a whole number from 0 to 2^63 - 1");
    result.push_back(number.get<std::int64_t>());
  }
  return result;
}

/// A tensor as the header describes it, before its place in the data has been checked.
struct Claim {
  std::string name, dtype;
  std::vector<std::int64_t> sizes;
  std::uint64_t begin, end;  // bytes from the start of the data
};

Claim parse_tensor(const std::string& path, const std::string& name, const json& info) {
  const std::string where = path + ": tensor " + in_quotes(name);
  PG_CHECK(info.is_object(), where, " is not described by an object");
  PG_CHECK(info.contains("dtype"), where, " has no dtype");
  PG_CHECK(info["dtype"].is_string(), where, ": dtype is not a string");
  auto dtype = info["dtype"].get<std::string>();
  std::vector<std::int64_t> sizes = whole_numbers(where, info, "shape");
  std::vector<std::int64_t> offsets = whole_numbers(where, info, "data_offsets");

  PG_CHECK(offsets.size() == 2, where, ": data_offsets has ", offsets.size(),
           " numbers, expected begin and end");
  PG_CHECK(offsets[0] <= offsets[1], where, " ends at byte ", offsets[1],
           ", before it begins at byte ", offsets[0]);
  std::int64_t expected = checked_byte_count(where, dtype, sizes);
  PG_CHECK(offsets[1] - offsets[0] == expected, where, ": ", dtype, " of shape ", Shape(sizes),
           " needs ", expected, " bytes, data_offsets give ", offsets[1] - offsets[0]);
  return {name, dtype, sizes, static_cast<std::uint64_t>(offsets[0]),
          static_cast<std::uint64_t>(offsets[1])};
}

/// Sorts the tensors by place and checks that they fill the file from `data_start` to its end.
void check_layout(const std::string& path, std::vector<Claim>& claims, std::uint64_t data_start,
                  std::uint64_t file_size) {
  std::ranges::stable_sort(claims, {}, [](const Claim& c) { return std::pair(c.begin, c.end); });
  std::uint64_t end = 0;
  for (const Claim& claim : claims) {
    PG_CHECK(claim.begin >= end, path, ": tensor ", in_quotes(claim.name), " begins at byte ",
             claim.begin, " and overlaps the one before it, which ends at byte ", end);
    PG_CHECK(claim.begin <= end, path, ": bytes ", end, " to ", claim.begin,
             " of the data are a hole: no tensor owns them");
    end = claim.end;
  }
  std::uint64_t expected = data_start + end;
  PG_CHECK(file_size >= expected, path, ": file is cut short: expected ", expected,
           " bytes, found ", file_size);
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

/// Reads elements of type T at any address, and converts each to float.
template <class T, class Convert>
std::vector<float> converted(Bytes bytes, Convert convert) {
  std::vector<float> result(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < result.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    result[i] = convert(value);
  }
  return result;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  Bytes file = map_file(path, mapping_);
  std::string_view text = header_text(path, file);
  const json header = parse_header(path, text);

  std::vector<Claim> claims;
  for (const auto& [key, value] : header.items()) {
    if (key == metadata_key)
      metadata_ = parse_metadata(path, value);
    else
      claims.push_back(parse_tensor(path, key, value));
  }
  const std::uint64_t data_start = length_bytes + text.size();
  check_layout(path, claims, data_start, file.size());

  header_ = file.first(data_start);
  for (const auto& [name, dtype, sizes, begin, end] : claims)
    entries_.push_back({name, dtype, Shape(sizes), file.subspan(data_start + begin, end - begin)});
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  auto found = std::ranges::find(entries_, name, &SafetensorsEntry::name);
  PG_CHECK(found != entries_.end(), path_, ": has no tensor ", in_quotes(name), "; it has ",
           entries_.size(), entries_.empty() ? "" : ", the first is ",
           entries_.empty() ? "" : in_quotes(entries_.front().name));
  return *found;
}

std::vector<float> to_floats(const SafetensorsEntry& entry) {
  auto cast = [](auto value) { return static_cast<float>(value); };
  if (entry.dtype == "F32") return converted<float>(entry.bytes, cast);
  if (entry.dtype == "F64") return converted<double>(entry.bytes, cast);
  if (entry.dtype == "BF16") return converted<bf16>(entry.bytes, cast);
  if (entry.dtype == "F16") return converted<std::uint16_t>(entry.bytes, float_of_half);
  throw Error("tensor " + format::in_quotes(entry.name) + " holds " + entry.dtype +
              ", expected F32, F64, F16 or BF16");
}

}  // namespace plangrad::nn
