// Computations are looked up by rank and instruction.
// Chapter 06.
#include "parallel/simulation/own_cores.h"

#include <map>
#include <tuple>

#include "autograd/error.h"

namespace plangrad::parallel {
namespace {

using Computation = std::tuple<int, Op, Value, int, int, int>;

Computation computation_of(const Instruction& x, int rank) {
  return {rank, x.op, x.what, x.stage, x.micro, x.version};
}

struct CpuTime {
  double seconds = 0;
  int count = 0;
};

}  // namespace

Timeline on_own_cores(const VerifiedPlan& plan, const Timeline& measured, Costs costs) {
  std::map<Computation, CpuTime> times;
  for (const Record& record : measured.records) {
    if (record.lane != Lane::compute) continue;
    CpuTime& time = times[computation_of(record.instruction, record.rank)];
    time.seconds += record.cpu;
    ++time.count;
  }
  costs.computation = [&times](const Instruction& x, int rank) {
    const auto time = times.find(computation_of(x, rank));
    PG_CHECK(time != times.end(), "own cores: rank ", rank, " was not measured at ", print(x),
             "; give a timeline of this plan");
    return time->second.seconds / time->second.count;
  };
  return simulate(plan, costs);
}

}  // namespace plangrad::parallel
