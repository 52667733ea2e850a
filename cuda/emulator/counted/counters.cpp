// Sums of counters, and names of kernels for tables.
// Not here: counting (counter.cpp).
// Chapter 12.
#include "cuda/emulator/counted/counters.h"

#include <algorithm>
#include <regex>

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

}  // namespace plangrad::cuda::emulator
