// Image data: IDX files (MNIST, Fashion-MNIST) as normalised batches in a shuffled order.
// Not here: augmentation, colour, devices. The caller copies a batch to the model's device.
// Chapter 02; LeCun et al. 1998 for the files, Xiao et al. 2017 for Fashion-MNIST.
#pragma once

#include <cstdint>
#include <filesystem>

#include "autograd/error.h"

namespace plangrad::nn {
using namespace autograd;

/// shapes: pixels (count,height,width), 0 to 255, row-major
struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::string name = "the images";  ///< for errors: their file
};

/// Reads an IDX file of images (magic number 0x803) or labels (0x801), plain or packed by gzip.
/// throws: Error if the file is missing, of another kind, cut short or too long
IdxImages read_idx_images(const std::filesystem::path& path);
std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path);

/// shapes: images (count,1,height,width), normalised; labels (count)
struct ImageBatch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

/// Mean and standard deviation of all pixels of a set, where 0 is black and 1 is white.
struct PixelStatistics {
  float mean = 0, deviation = 1;
};
PixelStatistics pixel_statistics(const IdxImages& images);

/// Images with their labels. A batch holds (pixel / 255 - mean) / deviation.
class ImageSet {
 public:
  ImageSet() = default;
  /// throws: Error if there are no images, or if there are not as many labels
  ImageSet(IdxImages images, std::vector<std::uint8_t> labels, PixelStatistics statistics);

  std::int64_t size() const { return images_.count; }
  std::int64_t height() const { return images_.height; }
  std::int64_t width() const { return images_.width; }
  /// One more than the largest label.
  int classes() const { return classes_; }
  /// A number that differs between sets; it tells whether a resumed run has the same data.
  std::uint64_t checksum() const;

  /// Images [first, last) of the training batch of `step`; a batch has `batch_size` images. An
  /// epoch has size() / batch_size steps, without the images that do not fill a batch. Its order
  /// depends on (seed, epoch) alone, so a run resumes exactly, and ranks can partition a batch.
  /// throws: Error if a batch needs more images than there are
  ImageBatch batch(std::uint64_t seed, std::int64_t step, std::int64_t batch_size,
                   std::int64_t first, std::int64_t last) const;
  /// Images [first, last) in the order of the file, for evaluation.
  ImageBatch evaluation_batch(std::int64_t first, std::int64_t last) const;

 private:
  void append(std::int64_t index, ImageBatch& batch) const;

  IdxImages images_;
  std::vector<std::uint8_t> labels_;
  PixelStatistics statistics_;
  int classes_ = 0;
};

/// Element `index` of a shuffle of 0 .. count-1 that depends on (seed, epoch) alone. Nothing is
/// stored: each element is computed on its own.
/// source: Luby and Rackoff 1988 (a Feistel network of random functions is a random permutation)
std::int64_t shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                      std::int64_t count);

struct ImageData {
  ImageSet training, validation;
};

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte and the two files t10k-*, each plain or
/// with .gz, from a folder. "fashion-mnist" is the folder of Debian's package
/// dataset-fashion-mnist. Both sets are normalised by the statistics of the training set.
/// throws: Error if the folder or a file is missing or broken, or the two sets do not match
ImageData load_image_data(const std::string& folder);

}  // namespace plangrad::nn
