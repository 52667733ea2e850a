// The host's memory: a cache of freed blocks, and copies between types.
// Not here: accounting, which Storage does.
// Chapter 03.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/map.h"
#include "autograd/walk.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARAGRAD_CACHE_BLOCKS 0  // a sanitizer must see every allocation and every free
#else
#define PARAGRAD_CACHE_BLOCKS 1
#endif

namespace paragrad::autograd {

/// A training step frees and allocates the same sizes again and again. Giving large blocks back to
/// the system each time would cost a page fault for every 4 KiB.
struct CpuBackend::Blocks {
  std::mutex mutex;  // the message lane of a rank allocates too
  std::unordered_map<std::int64_t, std::vector<void*>> free;

  ~Blocks() {
    for (auto& [size, blocks] : free)
      for (void* block : blocks) std::free(block);
  }

  /// Rounds up to one of 8 sizes per power of two, so that similar sizes share blocks.
  static std::int64_t rounded(std::int64_t bytes) {
    std::int64_t step = 64;
    while (step * 16 < bytes) step *= 2;
    return std::max<std::int64_t>((bytes + step - 1) / step * step, 64);
  }
};

CpuBackend::CpuBackend() : blocks_(std::make_unique<Blocks>()) {}
CpuBackend::~CpuBackend() = default;
const char* CpuBackend::name() const { return "cpu"; }

DevicePtr cpu_device() { return std::make_shared<Device>(std::make_shared<CpuBackend>()); }

void* CpuBackend::allocate(std::int64_t bytes) {
  std::int64_t size = Blocks::rounded(bytes);
  if (PARAGRAD_CACHE_BLOCKS) {
    std::lock_guard lock(blocks_->mutex);
    std::vector<void*>& blocks = blocks_->free[size];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      return block;
    }
  }
  void* block = std::aligned_alloc(64, PARAGRAD_CACHE_BLOCKS ? size : (bytes + 64) / 64 * 64);
  PG_CHECK(block, "out of memory: the host has no ", bytes,
           " bytes left; use a smaller model, batch or context");
  return block;
}

void CpuBackend::free(void* data, std::int64_t bytes) {
  if (!PARAGRAD_CACHE_BLOCKS) return std::free(data);
  std::lock_guard lock(blocks_->mutex);
  blocks_->free[Blocks::rounded(bytes)].push_back(data);
}

void CpuBackend::copy_from_host(const void* source, Out y) {
  if (y.bytes()) std::memcpy(y.raw(), source, y.bytes());
}

void CpuBackend::copy_to_host(In x, void* target) {
  if (x.bytes()) std::memcpy(target, x.raw(), x.bytes());
}

void CpuBackend::copy(In x, Out y) {
  if (x.dtype() == y.dtype()) {
    cpu::parallel_for(x.bytes(), 4 * cpu::element_grain,
                      [&](std::int64_t first, std::int64_t last) {
                        std::memmove(y.raw() + first, x.raw() + first, last - first);
                      });
    return;
  }
  dispatch(x.dtype(), [&]<class From>() {
    dispatch(y.dtype(), [&]<class To>() {
      cpu::map<To>(
          y, [](auto v) { return static_cast<Compute<To>>(v); }, x.data<From>());
    });
  });
}

namespace {

/// y[i] = value(i), element by element.
template <class Value>
void generate(const Tensor& y, Value value) {
  dispatch(y.dtype(), [&]<class T>() {
    T* out = y.data<T>();
    cpu::parallel_each(y.numel(), 16,
                       [=](std::int64_t i) { out[i] = static_cast<Compute<T>>(value(i)); });
  });
}

}  // namespace

void CpuBackend::fill(double value, Out y) {
  if (value == 0 && y.bytes()) {
    std::memset(y.raw(), 0, y.bytes());
    return;
  }
  generate(y, [value](std::int64_t) { return value; });
}

void CpuBackend::fill_normal(RandomKey key, double mean, double deviation, Out y) {
  generate(y, [=](std::int64_t i) { return mean + deviation * normal(key, i); });
}

void CpuBackend::fill_uniform(RandomKey key, double low, double high, Out y) {
  generate(y, [=](std::int64_t i) { return low + (high - low) * uniform(key, i); });
}

void CpuBackend::copy_rows(In x, Rows from, std::int64_t rows, std::int64_t width, Out y, Rows to) {
  std::int64_t size = size_of(x.dtype());
  cpu::parallel_each(rows, width, [=](std::int64_t r) {
    std::memcpy(y.raw() + (to.offset + r * to.pitch) * size,
                x.raw() + (from.offset + r * from.pitch) * size, width * size);
  });
}

namespace {

template <class Word>
void permute_words(const Tensor& x, const std::vector<int>& order, const Tensor& y) {
  const int rank = y.shape().rank();
  std::vector<WalkStep> walk;
  for (int i = 0; i < rank; ++i)
    walk.push_back({y.size(i), x.shape().product(x.shape().axis(order[i]) + 1, rank), 0});
  if (walk.empty()) walk.push_back({1, 0, 0});
  const int outer = static_cast<int>(walk.size()) - 1;
  const std::int64_t inner = walk.back().size, stride = walk.back().a;
  const Word* in = reinterpret_cast<const Word*>(x.raw());
  Word* out = reinterpret_cast<Word*>(y.raw());
  cpu::parallel_each(y.numel() / std::max<std::int64_t>(inner, 1), inner, [&](std::int64_t row) {
    const Word* from = in + place_of(walk.data(), outer, row).a;
    for (std::int64_t j = 0; j < inner; ++j) out[row * inner + j] = from[j * stride];
  });
}

}  // namespace

void CpuBackend::permute(In x, const std::vector<int>& order, Out y) {
  switch (size_of(x.dtype())) {
    case 2: return permute_words<std::uint16_t>(x, order, y);
    case 4: return permute_words<std::uint32_t>(x, order, y);
    default: return permute_words<std::uint64_t>(x, order, y);
  }
}

}  // namespace paragrad::autograd
