// A safetensors file.
#include "nn/checkpoint/safetensors.h"

#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace nn;

std::vector<std::string> seeds() {
  const std::string bytes(24, 'a');
  auto source = [&](const std::string& name, const std::string& dtype, const Shape& shape,
                    std::size_t size) {
    return SafetensorsSource{
        name, dtype, shape, [&bytes, size] { return std::as_bytes(std::span(bytes)).first(size); }};
  };
  const std::string path = (folder() / "seed").string();
  std::vector<std::string> all;
  for (const char* dtype : {"F32", "I32"}) {
    write_safetensors(path, {{"step", "3"}},
                      {source("a", dtype, {2, 3}, 24), source("b", "BF16", {4}, 8),
                       source("none", "F64", {0}, 0), source("scalar", "F16", {}, 2)});
    all.push_back(read(path));
  }
  return all;
}

void read_input(const std::string& input) {
  const SafetensorsFile file(write("input.safetensors", input).string());
  std::size_t bytes = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    bytes += entry.bytes().size();
    try {
      to_floats(entry);
    } catch (const autograd::Error&) {
    }
  }
  must(bytes <= input.size(), "tensors are larger than their file");
}

}  // namespace plangrad::fuzz
