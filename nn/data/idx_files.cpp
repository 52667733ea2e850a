// The IDX format: a magic number, one size per dimension (big-endian, 4 bytes each), the bytes.
// Not here: batches (nn/data/image_data.cpp). zlib reads plain files as well as packed ones.
// Chapter 02; LeCun et al. 1998.
#include <zlib.h>

#include <memory>

#include "nn/data/image_data.h"

namespace paragrad::nn {

namespace {

struct Close {
  void operator()(gzFile file) const { gzclose(file); }
};

std::vector<std::uint8_t> unpack(const std::filesystem::path& path) {
  PG_CHECK(std::filesystem::exists(path), "no file ", path.string(), ": check the path");
  PG_CHECK(!std::filesystem::is_directory(path), path.string(), " is a folder: name an IDX file");
  std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  PG_CHECK(file, "can't open ", path.string(), ": check its permissions");
  std::vector<std::uint8_t> bytes, block(1 << 20);
  for (int count = 1; count > 0;) {
    count = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
    // A packed file without its end gives what it has; the sizes in its header tell.
    PG_CHECK(count >= 0, path.string(), " is damaged and can't be unpacked: get it again");
    if (count > 0) bytes.insert(bytes.end(), block.begin(), block.begin() + count);
  }
  return bytes;
}

std::int64_t big_endian(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return static_cast<std::int64_t>(bytes[at]) << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
         bytes[at + 3];
}

struct Idx {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> elements;
};

Idx read_idx(const std::filesystem::path& path, std::size_t dimensions, const char* content) {
  std::vector<std::uint8_t> bytes = unpack(path);
  std::size_t header = 4 + 4 * dimensions;
  PG_CHECK(bytes.size() >= header, path.string(), " is cut short: expected a header of ", header,
           " bytes, found ", bytes.size());
  std::int64_t magic = big_endian(bytes, 0);
  std::int64_t expected = 0x800 + static_cast<std::int64_t>(dimensions);  // 8: unsigned bytes
  PG_CHECK(magic == expected, path.string(), " is no IDX file of ", content,
           ": its magic number is ", magic, ", expected ", expected);

  std::vector<std::int64_t> sizes;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    sizes.push_back(big_endian(bytes, 4 + 4 * i));
    constexpr std::int64_t most = std::int64_t{1} << 40;  // keeps the product from overflowing
    PG_CHECK(sizes[i] > 0 && elements <= most / sizes[i], path.string(), " has ", sizes[i],
             " as size of dimension ", i, ", which can't be: get the file again");
    elements *= sizes[i];
  }
  std::size_t total = header + static_cast<std::size_t>(elements);
  PG_CHECK(bytes.size() >= total, path.string(), " is cut short: expected ", total,
           " bytes, found ", bytes.size());
  PG_CHECK(bytes.size() == total, path.string(), " is too long: expected ", total, " bytes, found ",
           bytes.size());
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return {sizes, std::move(bytes)};
}

}  // namespace

IdxImages read_idx_images(const std::filesystem::path& path) {
  Idx idx = read_idx(path, 3, "images");
  return {idx.sizes[0], idx.sizes[1], idx.sizes[2], std::move(idx.elements)};
}

std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path) {
  return read_idx(path, 1, "labels").elements;
}

}  // namespace paragrad::nn
