// Sums of counters, names of kernels for tables; the limits of two kinds of SM, and the least.
// Not here: counting (counter.cpp); clusters, and shared memory that a kernel leaves to the cache.
// Chapter 12; CUDA C++ Programming Guide, technical specifications per compute capability.
#include "cuda/emulator/counted/counters.h"

#include <algorithm>
#include <regex>

#include "autograd/error.h"
#include "cuda/emulator/counted/counter.h"

namespace plangrad::cuda::emulator {

namespace {

void add(GlobalCount& sum, const GlobalCount& x) {
  sum.requests += x.requests;
  sum.lanes += x.lanes;
  sum.bytes += x.bytes;
  sum.sectors += x.sectors;
  sum.lines += x.lines;
  sum.distinct += x.distinct;
}

void add(SharedCount& sum, const SharedCount& x) {
  sum.requests += x.requests;
  sum.lanes += x.lanes;
  sum.bytes += x.bytes;
  sum.passes += x.passes;
  sum.conflicts += x.conflicts;
}

}  // namespace

Counters& Counters::operator+=(const Counters& x) {
  for (Count Counters::*each :
       {&Counters::launches, &Counters::blocks, &Counters::threads, &Counters::partial,
        &Counters::barriers, &Counters::shuffles, &Counters::votes, &Counters::warp_barriers,
        &Counters::matrix_loads, &Counters::mmas, &Counters::flops})
    this->*each += x.*each;
  for (GlobalCount Counters::*each : {&Counters::loads, &Counters::stores, &Counters::atomics})
    add(this->*each, x.*each);
  for (SharedCount Counters::*each : {&Counters::shared_loads, &Counters::shared_stores})
    add(this->*each, x.*each);
  static_bytes = std::max(static_bytes, x.static_bytes);
  return *this;
}

double Counters::active() const {
  const Count lanes =
      loads.lanes + stores.lanes + atomics.lanes + shared_loads.lanes + shared_stores.lanes;
  return requests() == 0 ? 1
                         : static_cast<double>(lanes) / (32.0 * static_cast<double>(requests()));
}

std::vector<KernelCounters> counters() { return Counter::instance().launches(); }
void reset_counters() { Counter::instance().reset(); }

std::vector<KernelCounters> by_kernel(const std::vector<KernelCounters>& launches) {
  std::vector<KernelCounters> result;
  for (const KernelCounters& launch : launches) {
    auto same = [&](const KernelCounters& other) { return other.name == launch.name; };
    const auto found = std::find_if(result.begin(), result.end(), same);
    if (found == result.end())
      result.push_back(launch);
    else
      found->counts += launch.counts;
  }
  return result;
}

/// Ends at the first "(" that stands outside of <>; a template's name follows its return type.
std::string short_name(const std::string& name) {
  static const std::regex qualifier("\\(anonymous namespace\\)::|[A-Za-z_]\\w*::");
  std::string plain = std::regex_replace(name, qualifier, "");
  if (plain.starts_with("void ")) plain.erase(0, 5);
  int depth = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    depth += (plain[i] == '<') - (plain[i] == '>');
    if (plain[i] == '(' && depth == 0) return plain.substr(0, i);
  }
  return plain;
}

namespace {

constexpr int most_warps = 64, most_blocks = 32, registers_of_sm = 65536;
constexpr std::size_t reserved_bytes = 1024;  // of shared memory for each block, by the system

std::size_t shared_bytes_of_sm(int compute_capability) {
  PG_CHECK(compute_capability == 80 || compute_capability == 90,
           "occupancy: expected compute capability 80 or 90, got ", compute_capability);
  return (compute_capability == 80 ? 164 : 228) * 1024;
}

constexpr std::size_t round_up(std::size_t x, std::size_t unit) {
  return (x + unit - 1) / unit * unit;
}

}  // namespace

Occupancy occupancy(int compute_capability, int threads, std::size_t shared_bytes, int registers) {
  const std::size_t all_shared = shared_bytes_of_sm(compute_capability);
  const int warps = (threads + 31) / 32;
  Occupancy result{most_blocks, 0, "blocks"};
  auto limit = [&](std::size_t blocks, const char* what) {
    if (static_cast<int>(blocks) < result.blocks) {
      result.blocks = static_cast<int>(blocks);
      result.limit = what;
    }
  };
  limit(most_warps / warps, "threads");
  limit(all_shared / round_up(shared_bytes + reserved_bytes, 128), "shared memory");
  // A warp gets registers 256 at a time, and each of an SM's four parts has a quarter of them.
  if (registers > 0)
    limit(registers_of_sm / 4 / round_up(32 * registers, 256) * 4 / warps, "registers");
  result.share = static_cast<double>(result.blocks * warps) / most_warps;
  return result;
}

}  // namespace plangrad::cuda::emulator
