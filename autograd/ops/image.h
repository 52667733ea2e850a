// Operations on images: convolution, pooling, batch norm.
// Not here: layers with weights (nn/models/resnet.h).
// Chapter 02.
#pragma once

#include "autograd/graph.h"

namespace paragrad::autograd {

/// Cross-correlation of images with kernels, as PyTorch's conv2d without bias.
/// shapes: x (N,C,H,W), weight (K,C,kh,kw) -> (N,K,(H+2p-kh)/s+1,(W+2p-kw)/s+1)
/// throws: Error if channels differ or a kernel is larger than the padded image
Tensor conv2d(const Tensor& x, const Tensor& weight, int stride = 1, int padding = 0);

/// shapes: x (N,C,H,W) -> (N,C,(H+2p-size)/stride+1,...)
/// throws: Error if the window is larger than the padded image, or padding is over half of it
Tensor max_pool2d(const Tensor& x, int size, int stride, int padding = 0);
/// Padding counts as zeros.
Tensor average_pool2d(const Tensor& x, int size, int stride, int padding = 0);

/// What batch norm was told about the images of a training set.
struct RunningStatistics {
  Tensor mean, variance;  // (C), (C)
};

/// Normalises each channel over batch, height and width, then scales and shifts it.
/// In training by the batch's own mean and biased variance; backward then
/// hands the batch's mean and unbiased variance to the leaves of `running` as their "gradients":
/// running statistics travel and are averaged like gradients, once per microbatch, whatever the
/// schedule. Otherwise by `running`.
/// shapes: x (N,C,H,W), weight (C), bias (C) -> (N,C,H,W)
/// throws: Error in training if a channel has only one value
/// source: Ioffe and Szegedy 2015, algorithm 1
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const RunningStatistics& running, bool training, double epsilon = 1e-5);

}  // namespace paragrad::autograd
