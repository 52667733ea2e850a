// What is sent, and when: the messages of a timeline, the rounds of its collectives, bursts.
// Not here: how many of them a time step holds (time_steps.cpp).
// Chapter 08.
#include <algorithm>
#include <map>
#include <tuple>

#include "parallel/simulation/costs.h"
#include "parallel/simulation/time_steps.h"

namespace paragrad::parallel {
namespace {

/// A message's name, which is the same at all its ends: sender and receiver, or the group; what is
/// sent; how many of that name came before.
using Name = std::tuple<Op, int, int, Value, int, int, int, int>;

std::vector<Name> names(const Timeline& timeline) {
  std::map<std::pair<int, Name>, int> before;  // by rank and name
  std::vector<Name> result;
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    bool received = receives(x);
    int from = received ? x.peer : sends(x) ? record.rank : -1;
    int to = received ? record.rank : x.peer;
    Name name{received ? Op::send : x.op, from, to, x.what, x.stage, x.micro, x.version, 0};
    std::get<7>(name) = before[{record.rank, name}]++;
    result.push_back(name);
  }
  return result;
}

/// For each record, when all ends of it have begun.
std::vector<double> beginnings(const Timeline& timeline) {
  const std::vector<Name> of = names(timeline);
  std::map<Name, double> latest;
  for (std::size_t i = 0; i < of.size(); ++i)
    latest[of[i]] = std::max(latest[of[i]], timeline.records[i].start);
  std::vector<double> result;
  for (const Name& name : of) result.push_back(latest[name]);
  return result;
}

}  // namespace

std::vector<Sending> sendings(const Plan& plan, const Timeline& timeline) {
  const std::vector<double> begin = beginnings(timeline);
  std::vector<Sending> result;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    const Record& record = timeline.records[i];
    const std::int64_t number = rounds(record.instruction, plan);
    for (std::int64_t round = 0; round < number; ++round) {
      double after = std::max(record.end - begin[i], 0.0) * static_cast<double>(round);
      std::int64_t bytes = record.bytes * (round + 1) / number - record.bytes * round / number;
      result.push_back(
          {record.rank, record.instruction, begin[i] + after / static_cast<double>(number), bytes});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return result;
}

std::vector<Sending> inner_sendings(const Plan& plan, const Timeline& timeline) {
  std::vector<Sending> result = sendings(plan, timeline);
  const std::vector<double> starts = update_starts(plan, timeline);
  if (starts.size() < 3) return result;
  std::erase_if(result, [from = starts[1], to = starts.back()](const Sending& sending) {
    return sending.seconds < from || sending.seconds >= to;
  });
  return result;
}

std::int64_t largest_burst(const std::vector<Sending>& sendings, double seconds) {
  std::int64_t sum = 0, largest = 0;
  auto oldest = sendings.begin();
  for (const Sending& sending : sendings) {
    while (oldest->seconds + seconds * (1 - 1e-9) < sending.seconds) sum -= (oldest++)->bytes;
    largest = std::max(largest, sum += sending.bytes);
  }
  return largest;
}

}  // namespace paragrad::parallel
