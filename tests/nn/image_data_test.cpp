// Image data: IDX files, plain, packed and broken; shuffles that are permutations; epochs and cuts
// of batches. Not here: training on them.
#include "nn/data/image_data.h"

#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <map>
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace plangrad::nn;
namespace fs = std::filesystem;

namespace {

std::string word(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

/// Images of 2 x 3 pixels; all pixels of image i are `first + i`.
std::string image_file(int count, int first = 0) {
  std::string bytes = word(0x803) + word(count) + word(2) + word(3);
  for (int i = 0; i < count; ++i) bytes += std::string(6, static_cast<char>(first + i));
  return bytes;
}

/// Labels 0, 1, 2, 0, 1, ...
std::string label_file(int count) {
  std::string bytes = word(0x801) + word(count);
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % 3));
  return bytes;
}

struct TemporaryFolder : plangrad::tests::TemporaryFolder {
  fs::path packed(const std::string& name, const std::string& bytes) const {
    gzFile file = gzopen((path / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path / name;
  }
};

ImageSet image_set(int count) {
  IdxImages images{count, 1, 1, {}};
  for (int i = 0; i < count; ++i) images.pixels.push_back(static_cast<std::uint8_t>(i));
  return ImageSet(images, std::vector<std::uint8_t>(images.pixels), {0.0f, 1.0f / 255});
}

}  // namespace

TEST_CASE("image data: IDX files are read, plain and packed") {
  TemporaryFolder folder;
  for (auto path : {folder.file("a", image_file(4)), folder.packed("a.gz", image_file(4))}) {
    IdxImages images = read_idx_images(path);
    CHECK(std::tuple(images.count, images.height, images.width) == std::tuple(4, 2, 3));
    CHECK(images.pixels.size() == 24);
    CHECK(images.pixels[23] == 3);
  }
  CHECK(read_idx_labels(folder.packed("b.gz", label_file(4))) ==
        std::vector<std::uint8_t>{0, 1, 2, 0});
}

TEST_CASE("image data: broken IDX files are refused with a reason") {
  TemporaryFolder folder;
  auto images = [&](const std::string& bytes) { return read_idx_images(folder.file("x", bytes)); };
  std::string good = image_file(4);
  CHECK_THROWS_WITH(images(good.substr(0, 39)), Contains("cut short: expected 40 bytes, found 39"));
  CHECK_THROWS_WITH(images(good + "x"), Contains("too long: expected 40 bytes, found more"));
  CHECK_THROWS_WITH(images(good.substr(0, 15)), Contains("a header of 16 bytes, found 15"));
  CHECK_THROWS_WITH(images(label_file(20)),
                    Contains("not an IDX file of images") && Contains("2049, expected 2051"));
  CHECK_THROWS_WITH(images(word(0x803) + word(~0u) + word(~0u) + word(~0u)),
                    Contains("which is impossible"));
  CHECK_THROWS_WITH(images(word(0x803) + word(0) + word(2) + word(3)),
                    Contains("which is impossible"));
  for (const auto& [start, what] :
       {std::pair("version https://git-lfs.github.com/spec/v1", "Git LFS"),
        {"<!DOCTYPE html><html>", "is a web page"},
        {"Entry not found", "is a web page"},  // less than a header
        {"%PDF-1.7 and more than a header", "is a PDF"},
        {"PK\x03\x04 and more than a header", "save_pretrained"},
        {"\x93NUMPY and more than a header", "numpy.save"}})
    CHECK_THROWS_WITH(images(start), Contains(what));
  CHECK_THROWS_WITH(read_idx_labels(folder.file("x", good)), Contains("not an IDX file of labels"));
  CHECK_THROWS_WITH(read_idx_images(folder.path / "none"), Contains("no file"));
  CHECK_THROWS_WITH(read_idx_images(folder.path), Contains("is a folder"));
}

TEST_CASE("image data: broken packed files are refused with a reason") {
  TemporaryFolder folder;
  std::string packed = read_file(folder.packed("a.gz", image_file(200)));
  std::string cut = packed.substr(0, packed.size() / 2);
  CHECK_THROWS_WITH(read_idx_images(folder.file("cut.gz", cut)), Contains("is cut short"));
  std::string damaged = packed;
  for (std::size_t i = 20; i < 40; ++i) damaged[i] = static_cast<char>(~damaged[i]);
  CHECK_THROWS_WITH(read_idx_images(folder.file("damaged.gz", damaged)), Contains("damaged"));
}

TEST_CASE("image data: no more is unpacked than the header says") {
  TemporaryFolder folder;
  const fs::path bomb = folder.packed("bomb.gz", image_file(4) + std::string(200 << 20, 'x'));
  REQUIRE(fs::file_size(bomb) < 1 << 20);
  rusage before = {}, after = {};
  ::getrusage(RUSAGE_SELF, &before);
  CHECK_THROWS_WITH(read_idx_images(bomb), Contains("too long: expected 40 bytes, found more"));
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 50 << 10);
  CHECK_THROWS_WITH(
      read_idx_images(folder.file("x", word(0x803) + word(1 << 20) + word(28) + word(28))),
      Contains("which is impossible"));
}

TEST_CASE("image data: a folder gives two sets, normalised by the training images") {
  TemporaryFolder folder;
  folder.file("train-images-idx3-ubyte", image_file(6, 10));
  folder.packed("train-labels-idx1-ubyte.gz", label_file(6));
  folder.packed("t10k-images-idx3-ubyte.gz", image_file(2, 100));
  folder.file("t10k-labels-idx1-ubyte", label_file(2));
  ImageData data = load_image_data(folder.path.string());
  CHECK(data.training.size() == 6);
  CHECK(data.training.classes() == 3);
  CHECK(data.validation.size() == 2);

  auto all = data.training.evaluation_batch(0, 6);
  double sum = 0, squares = 0;
  for (float x : all.images) {
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / 36) < 1e-5);
  CHECK(std::abs(squares / 36 - 1) < 1e-5);
  // Pixels 10 to 15 have mean 12.5 and variance 35/12.
  auto test = data.validation.evaluation_batch(1, 2);
  CHECK(test.labels == std::vector<std::int32_t>{1});
  CHECK(std::abs(test.images[0] - (101 - 12.5) / std::sqrt(35.0 / 12)) < 1e-3);

  folder.file("black", word(0x803) + word(2) + word(2) + word(3) + std::string(12, '\0'));
  const fs::path images = folder.path / "t10k-images-idx3-ubyte.gz";
  fs::rename(images, folder.path / "kept");
  fs::rename(folder.path / "black", folder.path / "t10k-images-idx3-ubyte");
  CHECK_THROWS_WITH(load_image_data(folder.path.string()),
                    Contains("all pixels of " + (folder.path / "t10k-images-idx3-ubyte").string()));
  fs::rename(folder.path / "kept", images);
  folder.file("t10k-labels-idx1-ubyte", label_file(3));
  CHECK_THROWS_WITH(load_image_data(folder.path.string()),
                    Contains("t10k-images-idx3-ubyte.gz: there are 2 images and 3 labels"));
  folder.packed("train-labels-idx1-ubyte.gz", word(0x801) + word(6) + std::string(6, '\xff'));
  CHECK_THROWS_WITH(load_image_data(folder.path.string()),
                    Contains("a label of the validation images, 0, never occurs in training"));
  fs::remove(folder.path / "train-images-idx3-ubyte");
  CHECK_THROWS_WITH(load_image_data(folder.path.string()), Contains("train-images-idx3-ubyte"));
  CHECK_THROWS_WITH(load_image_data("no-such-folder"), Contains("give a folder of IDX files"));
}

TEST_CASE("image data: names with a dot are read, though folders have those with a hyphen") {
  TemporaryFolder folder;
  folder.file("train-images.idx3-ubyte", image_file(6));
  folder.packed("train-labels.idx1-ubyte.gz", label_file(6));
  folder.file("t10k-images.idx3-ubyte", image_file(3));
  folder.file("t10k-labels.idx1-ubyte", label_file(3));
  make_folder(folder.path / "train-images-idx3-ubyte");
  CHECK(load_image_data(folder.path.string()).training.size() == 6);
}

TEST_CASE("image data: a shuffle has every place once") {
  for (std::int64_t count : {1, 2, 3, 4, 5, 100, 256, 257, 1000}) {
    std::set<std::int64_t> places;
    for (std::int64_t i = 0; i < count; ++i) places.insert(shuffled(5, 2, i, count));
    CHECK(static_cast<std::int64_t>(places.size()) == count);
    CHECK(*places.begin() == 0);
    CHECK(*places.rbegin() == count - 1);
  }
  CHECK_THROWS_WITH(shuffled(1, 0, 5, 5), Contains("outside a shuffle of 5"));
}

TEST_CASE("image data: shuffles reach every order about equally often") {
  // 6 orders of 3 images, 6000 epochs: 1000 each, with standard deviation 29.
  std::map<std::vector<std::int64_t>, int> orders;
  for (int epoch = 0; epoch < 6000; ++epoch) {
    ++orders[{shuffled(9, epoch, 0, 3), shuffled(9, epoch, 1, 3), shuffled(9, epoch, 2, 3)}];
  }
  CHECK(orders.size() == 6);
  for (const auto& [order, count] : orders) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("image data: an epoch shows each image once, the next in another order") {
  auto set = image_set(12);
  std::vector<std::vector<std::int32_t>> epochs(2);
  for (int step = 0; step < 6; ++step) {
    auto batch = set.batch(1, step, 4, 0, 4);
    REQUIRE(batch.labels.size() == 4);
    for (int i = 0; i < 4; ++i) CHECK(batch.images[i] == Approx(batch.labels[i]));
    auto& epoch = epochs[step / 3];
    epoch.insert(epoch.end(), batch.labels.begin(), batch.labels.end());
  }
  for (const auto& epoch : epochs) CHECK(std::set(epoch.begin(), epoch.end()).size() == 12);
  CHECK(epochs[0] != epochs[1]);
  CHECK(set.batch(2, 0, 12, 0, 12).labels != set.batch(1, 0, 12, 0, 12).labels);
}

TEST_CASE("image data: a batch can be cut, and what does not fill one sits the epoch out") {
  auto set = image_set(11);
  auto whole = set.batch(3, 7, 4, 0, 4).labels, joined = set.batch(3, 7, 4, 0, 1).labels;
  auto rest = set.batch(3, 7, 4, 1, 4).labels;
  joined.insert(joined.end(), rest.begin(), rest.end());
  CHECK(joined == whole);
  auto second_epoch = set.batch(3, 2, 4, 0, 4).labels;  // 2 steps an epoch
  CHECK(second_epoch[0] == shuffled(3, 1, 0, 11));
  CHECK_THROWS_WITH(set.batch(3, 0, 12, 0, 12), Contains("use a batch size of 1 to 11"));
  CHECK_THROWS_WITH(set.batch(3, 0, 4, 2, 5), Contains("in a batch of 4"));
}

TEST_CASE("image data: images that can't be normalised are refused") {
  CHECK_THROWS_WITH(pixel_statistics({1, 1, 2, {7, 7}}), Contains("all pixels"));
  CHECK_THROWS_WITH(ImageSet({0, 1, 1, {}}, {}, {}), Contains("no images"));
}
