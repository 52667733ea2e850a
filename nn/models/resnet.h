// ResNet-18 for small images, as a list of layers: a stem, eight residual blocks, a head.
// Not here: other depths, and the form for large images (7x7 stem with a max pool).
// Chapter 02; He et al. 2016, section 4.2. Names of parameters are torchvision's.
#pragma once

#include "nn/models/model.h"

namespace plangrad::nn {

/// The number of layers in the list.
inline constexpr int resnet18_layers = 10;

struct ResNetConfig {
  std::int64_t channels = 1;  ///< channels of the images: 1 for grey, 3 for colour
  std::int64_t size = 28;     ///< height and width of the images; only the FLOPs depend on it
  std::int64_t classes = 10;
  std::int64_t width = 64;  ///< channels of the first blocks; later ones have 2, 4, 8 times as many
};

/// Makes a network from images to class scores. FLOPs count convolutions and the final product.
/// shapes: (N,channels,H,W) -> (N,classes)
/// throws: Error if a size is not positive
Model resnet18(const ResNetConfig& config);

}  // namespace plangrad::nn
