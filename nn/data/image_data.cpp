// Reads IDX files: a magic number, a size for each dimension (big-endian, 4 bytes each), the bytes.
// Shuffles an epoch by a function of (seed, epoch, place): a Feistel network permutes a power of
// four, and places outside the set are permuted again (Black and Rogaway 2002). Chapter 02.
#include "nn/data/image_data.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <set>

#include "autograd/random.h"
#include "nn/checkpoint/file.h"

namespace plangrad::nn {
namespace {

/// A file that is unpacked while it is read if it is compressed: zlib reads plain files, too.
class Unpacked {
 public:
  explicit Unpacked(const std::filesystem::path& path) : path_(path) {
    check_regular(path);
    file_.reset(gzopen(path.c_str(), "rb"));
    if (!file_) throw Unreadable(text("can't open ", path.string(), ": ", system_message()));
  }

  /// Returns the next bytes: as many as are asked for, or all that are left.
  std::vector<std::uint8_t> next(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    const int got = gzread(file_.get(), bytes.data(), static_cast<unsigned>(count));
    // A truncated file yields fewer bytes, which the check against its header's sizes finds.
    PG_CHECK(got >= 0, path_.string(), " is damaged and can't be unpacked: download it again");
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }

 private:
  const std::filesystem::path& path_;
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file_{nullptr, gzclose};
};

std::int64_t big_endian(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return static_cast<std::int64_t>(bytes[at]) << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 |
         bytes[at + 3];
}

/// The sizes of a file's dimensions, and its elements.
std::pair<std::vector<std::int64_t>, std::vector<std::uint8_t>> read_idx(
    const std::filesystem::path& path, std::size_t dimensions, const char* content) {
  Unpacked file(path);
  const std::size_t header = 4 + 4 * dimensions;
  std::vector<std::uint8_t> bytes = file.next(header);
  const std::int64_t magic = bytes.size() < 4 ? 0 : big_endian(bytes, 0);
  const auto expected = 0x800 + static_cast<std::int64_t>(dimensions);  // 8: unsigned bytes
  if (magic != expected) {
    for (const std::uint8_t byte : file.next(512)) bytes.push_back(byte);
    const std::string kind = foreign_kind({reinterpret_cast<char*>(bytes.data()), bytes.size()});
    PG_CHECK(kind.empty(), path.string(), ' ', kind);
  }
  PG_CHECK(bytes.size() >= header, path.string(), " is cut short: expected a header of ", header,
           " bytes, found ", bytes.size());
  PG_CHECK(magic == expected, path.string(), " is not an IDX file of ", content,
           ": its magic number is ", magic, ", expected ", expected);

  std::vector<std::int64_t> sizes;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    sizes.push_back(big_endian(bytes, 4 + 4 * i));
    constexpr std::int64_t largest = 600'000'000;  // pixels; those of EMNIST are 547 million
    PG_CHECK(sizes[i] > 0 && elements <= largest / sizes[i], path.string(), " has ", sizes[i],
             " as the size of dimension ", i, ", which is impossible: download the file again");
    elements *= sizes[i];
  }
  const auto expected_size = static_cast<std::size_t>(elements);
  std::vector<std::uint8_t> found = file.next(expected_size);
  PG_CHECK(found.size() == expected_size, path.string(), " is cut short: expected ",
           header + expected_size, " bytes, found ", header + found.size());
  PG_CHECK(file.next(1).empty(), path.string(), " is too long: expected ", header + expected_size,
           " bytes, found more");
  return {sizes, std::move(found)};
}

}  // namespace

IdxImages read_idx_images(const std::filesystem::path& path) {
  auto [sizes, pixels] = read_idx(path, 3, "images");
  return {sizes[0], sizes[1], sizes[2], std::move(pixels), path.string()};
}

std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path) {
  return read_idx(path, 1, "labels").second;
}

PixelStatistics pixel_statistics(const IdxImages& images) {
  double sum = 0, squares = 0, count = static_cast<double>(images.pixels.size());
  for (std::uint8_t pixel : images.pixels) {
    sum += pixel;
    squares += pixel * pixel;  // exact: integers below 2^53
  }
  double mean = sum / count, variance = squares / count - mean * mean;
  PG_CHECK(variance > 0, "all pixels of ", images.name,
           " are the same, so they can't be normalised: is this the right file?");
  return {static_cast<float>(mean / 255), static_cast<float>(std::sqrt(variance) / 255)};
}

ImageSet::ImageSet(IdxImages images, std::vector<std::uint8_t> labels, PixelStatistics statistics)
    : images_(std::move(images)), labels_(std::move(labels)), statistics_(statistics) {
  PG_CHECK(images_.count > 0, "there are no images: give files with images");
  PG_CHECK(images_.count == static_cast<std::int64_t>(labels_.size()), images_.name, ": there are ",
           counted(images_.count, "image"), " and ", counted(labels_.size(), "label"),
           ": give the two files that belong together");
  classes_ = 1 + *std::max_element(labels_.begin(), labels_.end());
}

void ImageSet::append(std::int64_t index, ImageBatch& batch) const {
  std::int64_t area = images_.height * images_.width;
  const std::uint8_t* pixels = images_.pixels.data() + index * area;
  for (std::int64_t i = 0; i < area; ++i)
    batch.images.push_back((pixels[i] / 255.0f - statistics_.mean) / statistics_.deviation);
  batch.labels.push_back(labels_[index]);
}

std::uint64_t ImageSet::checksum() const {
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const auto* bytes : {&images_.pixels, &labels_})
    for (std::uint8_t byte : *bytes) hash = (hash ^ byte) * 1099511628211ull;
  return hash;
}

ImageBatch ImageSet::batch(std::uint64_t seed, std::int64_t step, std::int64_t batch_size,
                           std::int64_t first, std::int64_t last) const {
  PG_CHECK(batch_size >= 1 && batch_size <= size(), "a batch of ", batch_size,
           " images can't be drawn from ", size(), ": use a batch size of 1 to ", size());
  PG_CHECK(step >= 0 && first >= 0 && first <= last && last <= batch_size, "step ", step,
           " has no images ", first, " to ", last, " in a batch of ", batch_size);
  std::int64_t steps_per_epoch = size() / batch_size;
  std::int64_t epoch = step / steps_per_epoch, start = step % steps_per_epoch * batch_size;
  ImageBatch batch;
  for (std::int64_t i = first; i < last; ++i)
    append(shuffled(seed, epoch, start + i, size()), batch);
  return batch;
}

ImageBatch ImageSet::evaluation_batch(std::int64_t first, std::int64_t last) const {
  PG_CHECK(first >= 0 && first <= last && last <= size(), "there are no images ", first, " to ",
           last, ", only ", size());
  ImageBatch batch;
  for (std::int64_t i = first; i < last; ++i) append(i, batch);
  return batch;
}

std::int64_t shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                      std::int64_t count) {
  PG_CHECK(index >= 0 && index < count, "place ", index, " is outside a shuffle of ", count);
  RandomKey key(seed, text("images of epoch ", epoch));
  // Each round XORs one half of the bits of x with a random function of the other half: invertible,
  // whatever the function. This permutes [0, 4^half); follow it until it comes back below count.
  int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
  int half = std::max(1, (bits + 1) / 2);
  std::uint64_t mask = (1ull << half) - 1, x = static_cast<std::uint64_t>(index);
  do {
    for (std::uint64_t round = 0; round < 6; ++round) {
      std::uint64_t left = x >> half, right = x & mask;
      x = right << half | (left ^ (philox(key, round << 32 | right)[0] & mask));
    }
  } while (x >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(x);
}

ImageData load_image_data(const std::string& folder) {
  namespace fs = std::filesystem;
  bool packaged = folder == "fashion-mnist" && !fs::exists(folder);
  fs::path from = packaged ? "/usr/share/datasets/fashion-mnist" : folder;
  PG_CHECK(fs::is_directory(from), "there is no folder ", from.string(),
           ": give a folder of IDX files, or \"fashion-mnist\", which Debian's package ",
           "dataset-fashion-mnist provides (examples/install_packages.sh --images installs it)");
  auto find = [&](const std::string& name) {
    std::string dotted = name;  // as some mirrors have it, at times beside a folder of that name
    dotted[name.rfind("-idx")] = '.';
    for (const std::string& each : {name + ".gz", name, dotted + ".gz", dotted})
      if (fs::is_regular_file(from / each)) return from / each;
    return from / name;
  };
  IdxImages train = read_idx_images(find("train-images-idx3-ubyte"));
  IdxImages test = read_idx_images(find("t10k-images-idx3-ubyte"));
  PG_CHECK(train.height == test.height && train.width == test.width, from.string(),
           ": training images are ", train.height, " x ", train.width, ", the others ", test.height,
           " x ", test.width);
  PixelStatistics statistics = pixel_statistics(train);
  pixel_statistics(test);  // throws if they are all the same
  const auto labels = read_idx_labels(find("train-labels-idx1-ubyte"));
  const auto others = read_idx_labels(find("t10k-labels-idx1-ubyte"));
  const std::set<int> known(labels.begin(), labels.end());
  for (const int label : others)
    PG_CHECK(known.contains(label), from.string(), ": a label of the validation images, ", label,
             ", never occurs in training: are these the labels of the training images?");
  return {{std::move(train), labels, statistics}, {std::move(test), others, statistics}};
}

}  // namespace plangrad::nn
