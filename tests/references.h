// References: the numbers of a file in tests/references, which a script beside it wrote.
#pragma once

#include <cstring>

#include "nn/checkpoint/safetensors.h"
#include "tests/folders.h"
#include "tests/numbers.h"

namespace plangrad::tests {

/// The tensors of a file, by name.
inline std::map<std::string, nn::SafetensorsEntry> tensors_of(const nn::SafetensorsFile& file) {
  std::map<std::string, nn::SafetensorsEntry> tensors;
  for (const nn::SafetensorsEntry& entry : file.entries()) tensors.emplace(entry.name, entry);
  return tensors;
}

class References {
 public:
  explicit References(const std::string& name) : file_(clone_path("tests/references/" + name)) {}

  const nn::SafetensorsFile& file() const { return file_; }
  bool contains(const std::string& name) const { return tensors_.contains(name); }
  Shape shape(const std::string& name) const { return tensors_.at(name).shape; }
  /// The values of a tensor of F64 or F32.
  Numbers operator[](const std::string& name) const {
    const nn::SafetensorsEntry& entry = tensors_.at(name);
    return entry.dtype == "F64" ? read<double>(entry) : read<float>(entry);
  }
  /// The values of a tensor of I32.
  std::vector<std::int32_t> integers(const std::string& name) const {
    const nn::SafetensorsEntry& entry = tensors_.at(name);
    PG_CHECK(entry.dtype == "I32", "\"", name, "\" holds ", entry.dtype, ", expected I32");
    std::vector<std::int32_t> values(entry.shape.numel());
    std::memcpy(values.data(), entry.bytes().data(), entry.size);
    return values;
  }

 private:
  template <class T>
  static Numbers read(const nn::SafetensorsEntry& entry) {
    PG_CHECK(entry.dtype == nn::safetensors_dtype(DTypeOf<T>::value), "\"", entry.name, "\" holds ",
             entry.dtype, ", expected F64 or F32");
    std::vector<T> values(entry.shape.numel());
    std::memcpy(values.data(), entry.bytes().data(), entry.size);
    return {values.begin(), values.end()};
  }

  nn::SafetensorsFile file_;
  std::map<std::string, nn::SafetensorsEntry> tensors_ = tensors_of(file_);
};

/// The largest difference between two lists of numbers, as a share of the largest expected one.
/// throws: Error if the lists are not of one length
inline double difference(const Numbers& got, const Numbers& expected) {
  PG_CHECK(got.size() == expected.size(), "expected ", expected.size(), " numbers, got ",
           got.size());
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double off = std::abs(got[i] - expected[i]);
    worst = std::isnan(off) ? off : std::isnan(worst) ? worst : std::max(worst, off);
    scale = std::max(scale, std::abs(expected[i]));
  }
  return worst == 0 ? 0 : worst / scale;
}

/// scale * sin(first), scale * sin(first + 1), ...: what the scripts call `wave`.
inline Numbers wave(std::int64_t count, std::int64_t first = 0, double scale = 1) {
  Numbers values(count);
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = scale * std::sin(static_cast<double>(first + i));
  return values;
}

}  // namespace plangrad::tests
