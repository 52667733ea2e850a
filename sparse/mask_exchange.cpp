// Masks travel as numbers: the length of a name, the name, the length of an index, the index.
// Chapter 11.
#include "sparse/mask_exchange.h"

#include <cstring>

#include "parallel/transports/launch.h"

namespace paragrad::sparse {

namespace {

template <class List>
void write(std::string& bytes, const List& list) {
  const std::int64_t size = static_cast<std::int64_t>(list.size());
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
}

template <class List>
List read(const std::string& bytes, std::size_t& at) {
  std::int64_t size = 0;
  std::memcpy(&size, bytes.data() + at, sizeof size);
  List list(size, {});
  std::memcpy(list.data(), bytes.data() + at + sizeof size, list.size() * sizeof list[0]);
  at += sizeof size + list.size() * sizeof list[0];
  return list;
}

}  // namespace

SumCounts sum_over(Transport& transport, double timeout) {
  return [&transport, timeout](const std::vector<std::int64_t>& own) {
    std::string bytes;
    write(bytes, own);
    std::vector<std::int64_t> total(own.size(), 0);
    for (const std::string& one : all_gather_bytes(transport, bytes, timeout)) {
      std::size_t at = 0;
      const auto counts = read<std::vector<std::int64_t>>(one, at);
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += counts.at(i);
    }
    return total;
  };
}

Masks all_masks(Transport& transport, Masks own, double timeout) {
  std::string bytes;
  for (const auto& [name, index] : own) {
    write(bytes, name);
    write(bytes, index);
  }
  for (const std::string& one : all_gather_bytes(transport, bytes, timeout))
    for (std::size_t at = 0; at < one.size();) {
      const std::string name = read<std::string>(one, at);
      own[name] = read<Index>(one, at);
    }
  return own;
}

}  // namespace paragrad::sparse
