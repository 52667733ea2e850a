// IDX files of images and labels, compressed or not.
#include <zlib.h>

#include "nn/data/image_data.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

namespace {

std::string packed(const std::string& bytes) {
  const std::string path = (folder() / "packed").string();
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return read(path);
}

}  // namespace

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  const std::string images =
      "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"
      "abcdefghijkl"s;
  const std::string labels = "\0\0\x08\x01\0\0\0\x02\x03\x01"s;
  return {joined({images, labels}), joined({packed(images), packed(labels)})};
}

void read_input(const std::string& input) {
  const std::vector<std::string> files = parts_of(input, 2);
  nn::IdxImages images = nn::read_idx_images(write("images", files[0]));
  std::vector<std::uint8_t> labels = nn::read_idx_labels(write("labels", files[1]));
  const nn::PixelStatistics statistics = nn::pixel_statistics(images);
  const nn::ImageSet set(std::move(images), std::move(labels), statistics);
  set.batch(1, 0, 1, 0, 1);
  set.checksum();
}

}  // namespace plangrad::fuzz
