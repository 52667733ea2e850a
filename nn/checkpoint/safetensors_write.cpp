// write_safetensors: writes the header, then each tensor's bytes, to a file that replaces the old
// one. Also sizes and names of dtypes, for reading, too (nn/checkpoint/safetensors_read.cpp).
// Chapter 02.
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/safetensors.h"

namespace plangrad::nn {

std::string format::in_quotes(const std::string& name) {
  using nlohmann::json;
  constexpr std::size_t longest = 200;
  const std::string quoted =
      json(name.substr(0, longest)).dump(-1, ' ', false, json::error_handler_t::replace);
  return name.size() > longest ? quoted + "..." : quoted;
}

std::int64_t format::checked_byte_count(const std::string& where, const std::string& dtype,
                                        const std::vector<std::int64_t>& sizes) {
  // Bytes of one element of each of the format's types, except those of half a byte.
  static const std::map<std::string, std::int64_t, std::less<>> element_bytes = {
      {"BOOL", 1},    {"U8", 1},   {"I8", 1},          {"F8_E4M3", 1},     {"F8_E5M2", 1},
      {"F8_E8M0", 1}, {"U16", 2},  {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"I16", 2},
      {"F16", 2},     {"BF16", 2}, {"U32", 4},         {"I32", 4},         {"F32", 4},
      {"C64", 8},     {"U64", 8},  {"I64", 8},         {"F64", 8}};
  auto element = element_bytes.find(dtype);
  PG_CHECK(element != element_bytes.end(), where, " has the unknown dtype ", in_quotes(dtype),
           "; expected one like F32, BF16, F16, F64, I64, I32, U8 or BOOL");
  std::int64_t count = 1;
  bool overflow = false;
  for (std::int64_t size : sizes) overflow |= __builtin_mul_overflow(count, size, &count);
  overflow |= __builtin_mul_overflow(count, element->second, &count);
  PG_CHECK(!overflow, where, " has a shape whose size in bytes overflows 63 bits");
  return count;
}

namespace {

using namespace format;
using nlohmann::ordered_json;

/// The JSON header, padded with spaces so that the data begins at a multiple of 8 bytes.
std::string make_header(const std::string& path, const std::map<std::string, std::string>& metadata,
                        const std::vector<SafetensorsSource>& tensors) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  std::int64_t end = 0;
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    const std::string where = path + ": tensor " + in_quotes(name);
    PG_CHECK(name != metadata_key && !header.contains(name), where,
             " can't be written: its name is used twice or reserved");
    const std::int64_t begin = end, size = checked_byte_count(where, dtype, shape.sizes());
    PG_CHECK(!__builtin_add_overflow(begin, size, &end), where,
             " can't be written: the file's size overflows 63 bits");
    header[name] = {{"dtype", dtype}, {"shape", shape.sizes()}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  PG_CHECK(text.size() <= header_limit, path, ": can't be written: the header needs ", text.size(),
           " bytes, the format allows ", header_limit, "; use several files");
  return text;
}

/// Hands the bytes of a file to `write`, one part after the other. Returns their checksums.
Checksums write_parts(const std::string& path, const std::string& header,
                      const std::vector<SafetensorsSource>& tensors,
                      const std::function<void(Bytes)>& write) {
  const std::uint64_t length = header.size();
  const Bytes length_part = std::as_bytes(std::span(&length, 1)),
              text_part = std::as_bytes(std::span(header));
  write(length_part);
  write(text_part);
  Checksums checksums{{metadata_key, digits_of(crc32_of(text_part, crc32_of(length_part)))}};
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    Bytes data = bytes();
    const std::string where = path + ": tensor " + in_quotes(name);
    auto expected = static_cast<std::size_t>(checked_byte_count(where, dtype, shape.sizes()));
    PG_CHECK(data.size() == expected, where, " of shape ", shape, " needs ", expected,
             " bytes, got ", data.size());
    checksums[name] = checksum_of(data);
    write(data);
  }
  return checksums;
}

}  // namespace

Checksums write_safetensors(const std::string& path,
                            const std::map<std::string, std::string>& metadata,
                            const std::vector<SafetensorsSource>& tensors) {
  const std::string unfinished = path + partial;
  std::string header;
  try {
    header = make_header(path, metadata, tensors);
  } catch (const ordered_json::exception&) {
    throw Error(path + ": can't be written: a name or its metadata is not UTF-8");
  }
  try {
    const Descriptor file = create_file(unfinished);
    Checksums checksums = write_parts(unfinished, header, tensors,
                                      [&](Bytes part) { write_all(file, unfinished, part); });
    PG_CHECK(::fsync(file.number) == 0, unfinished,
             ": can't be written to disk: ", system_message());
    PG_CHECK(std::rename(unfinished.c_str(), path.c_str()) == 0, path, ": can't be replaced by ",
             unfinished, ": ", system_message());
    return checksums;
  } catch (...) {
    ::unlink(unfinished.c_str());
    throw;
  }
}

std::pair<Checksums, std::int64_t> describe_safetensors(
    const std::string& path, const std::map<std::string, std::string>& metadata,
    const std::vector<SafetensorsSource>& tensors) {
  std::int64_t bytes = 0;
  const Checksums checksums =
      write_parts(path, make_header(path, metadata, tensors), tensors,
                  [&](Bytes part) { bytes += static_cast<std::int64_t>(part.size()); });
  return {checksums, bytes};
}

std::string safetensors_dtype(DType dtype) {
  std::string name = name_of(dtype);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

}  // namespace plangrad::nn
