// write_safetensors: the header, then each tensor's bytes, into a file that replaces the old one.
// Not here: reading (nn/checkpoint/safetensors_read.cpp).
// Chapter 02.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/error.h"
#include "nn/checkpoint/safetensors.h"
#include "nn/checkpoint/safetensors_format.h"

namespace paragrad::nn {
namespace {

using namespace format;
using nlohmann::json;

/// The JSON header, padded with spaces so that the data begins at a multiple of 8 bytes.
std::string make_header(const std::string& path, const std::map<std::string, std::string>& metadata,
                        const std::vector<SafetensorsSource>& tensors) {
  std::string header = "{";
  if (!metadata.empty()) header += text('"', metadata_key, "\":", json(metadata).dump());
  std::set<std::string> names = {metadata_key};
  std::int64_t end = 0;
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    const std::string where = path + ": tensor " + in_quotes(name);
    PG_CHECK(names.insert(name).second, where, " can't be written: the name is taken");
    std::int64_t begin = end;
    bool overflow =
        __builtin_add_overflow(begin, checked_byte_count(where, dtype, shape.sizes()), &end);
    PG_CHECK(!overflow, where, " can't be written: the file's size overflows 63 bits");
    header += text(header.size() > 1 ? "," : "", json(name).dump(), ":{\"dtype\":\"", dtype,
                   "\",\"shape\":", json(shape.sizes()).dump(), ",\"data_offsets\":[", begin, ",",
                   end, "]}");
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  PG_CHECK(header.size() <= header_limit, path, ": can't be written: the header needs ",
           header.size(), " bytes, the format allows ", header_limit, "; use several files");
  return header;
}

void write_all(int descriptor, const std::string& path, Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    PG_CHECK(written >= 0, path, ": can't be written: ", system_message());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void write_tensors(const std::string& path, const std::string& header,
                   const std::vector<SafetensorsSource>& tensors) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  PG_CHECK(file.number >= 0, path, ": can't be created: ", system_message());
  std::uint64_t length = header.size();
  write_all(file.number, path, std::as_bytes(std::span(&length, 1)));
  write_all(file.number, path, std::as_bytes(std::span(header)));
  for (const auto& [name, dtype, shape, bytes] : tensors) {
    Bytes data = bytes();
    const std::string where = path + ": tensor " + in_quotes(name);
    auto expected = static_cast<std::size_t>(checked_byte_count(where, dtype, shape.sizes()));
    PG_CHECK(data.size() == expected, where, " of shape ", shape, " needs ", expected,
             " bytes, got ", data.size());
    write_all(file.number, path, data);
  }
  PG_CHECK(::fsync(file.number) == 0, path, ": can't be written to disk: ", system_message());
}

}  // namespace

void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<SafetensorsSource>& tensors) {
  const std::string unfinished = path + ".tmp";
  std::string header;
  try {
    header = make_header(path, metadata, tensors);
  } catch (const json::exception&) {
    throw Error(path + ": can't be written: a name or its metadata is not UTF-8");
  }
  try {
    write_tensors(unfinished, header, tensors);
    PG_CHECK(std::rename(unfinished.c_str(), path.c_str()) == 0, path, ": can't be replaced by ",
             unfinished, ": ", system_message());
  } catch (...) {
    ::unlink(unfinished.c_str());
    throw;
  }
}

}  // namespace paragrad::nn
