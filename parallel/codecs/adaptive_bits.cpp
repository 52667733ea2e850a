// Layers are in the order of their names, so that equal measurements give equal choices.
// Chapter 10.
#include "parallel/codecs/adaptive_bits.h"

#include "parallel/codecs/quantizer.h"

namespace paragrad::parallel {

void AdaptiveBits::add(const BitOptions& measured) {
  for (const auto& [layer, options] : measured) {
    auto [known, is_new] = options_.try_emplace(layer, options);
    for (std::size_t i = 0; !is_new && i < options.size(); ++i)
      known->second[i].error += options[i].error;
  }
}

Bits AdaptiveBits::choose() {
  std::vector<std::vector<BitOption>> layers;
  for (const auto& [layer, options] : options_) layers.push_back(options);
  const std::vector<std::size_t> chosen = choose_bits(layers);
  Bits bits;
  std::size_t i = 0;
  for (const auto& [layer, options] : options_) bits[layer] = static_cast<int>(chosen[i++]) + 1;
  options_.clear();
  return bits;
}

CodecEntry adaptive_codec() {
  return quantizer(
      {.name = "adaptive", .numbers = {bucket_number, period_number}, .chooses_bits = true});
}

}  // namespace paragrad::parallel
