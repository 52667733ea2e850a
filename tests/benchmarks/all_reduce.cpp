// Own all-reduce against MPI_Allreduce, 1 KB to 64 MB of f32, as a Markdown table:
//   mpirun -n 4 build/bin/benchmarks/all_reduce [--gigabits 1]
// With a rate of the network, also against the bandwidth bound 2 (N-1)/N * bytes / rate. The
// default is scatter-reduce, or direct where fitted() chooses that.
// Not here: a slow network (network_lab.sh). Chapter 04.
#include <CLI/CLI.hpp>
#include <iostream>

#include "parallel/transports/mpi_transport.h"

#if PLANGRAD_MPI
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/collectives/collective_run.h"

namespace {

using namespace plangrad::parallel;

/// Seconds until the last rank is through.
double seconds_of(const std::function<void()>& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  body();
  double mine = MPI_Wtime() - start, slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

struct Wanted {
  double gigabits = 0;
  std::int64_t smallest = 1024, largest = 64 << 20, piece = default_piece;
  bool fastest = false;
};

double chosen(std::vector<double> values, const Wanted& wanted) {
  std::sort(values.begin(), values.end());
  return values[wanted.fastest ? 0 : values.size() / 2];
}

/// Medians, or the fastest, of rounds in which the three take turns.
void measure(Transport& transport, std::int64_t bytes, const Wanted& wanted) {
  int n = transport.size();
  DevicePtr device = cpu_device();
  Tensor x = zeros({bytes / 4}, DType::f32, device), y = zeros({bytes / 4}, DType::f32, device);
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  auto own = [&](AllReduce how) {
    CollectiveRun run(all_reduce({how}, transport.rank(), n), x, ranks, group_channel(0),
                      wanted.piece);
    finish(run, transport, 300);
  };
  auto theirs = [&] {
    MPI_Allreduce(x.raw(), y.raw(), static_cast<int>(x.numel()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  std::vector<double> mpi, ring, usual;
  int rounds = bytes > (8 << 20) ? 5 : bytes > (1 << 20) ? 21 : 201;
  for (int i = 0; i < rounds; ++i) {
    mpi.push_back(seconds_of(theirs));
    ring.push_back(seconds_of([&] { own(AllReduce::ring); }));
    usual.push_back(seconds_of([&] { own(fitted(AllReduce::scatter_reduce, bytes, n)); }));
  }
  if (transport.rank() != 0) return;
  double a = chosen(mpi, wanted), b = chosen(ring, wanted), c = chosen(usual, wanted);
  fmt::print("| {} | {} | {:.4f} | {:.4f} | {:.4f} | {:.2f} |", n, bytes, a * 1e3, b * 1e3, c * 1e3,
             c / a);
  if (wanted.gigabits > 0) {
    double bound = 2.0 * (n - 1) / n * static_cast<double>(bytes) * 8 / (wanted.gigabits * 1e9);
    fmt::print(" {:.3f} | {:.2f} | {:.2f} | {:.2f} |", bound * 1e3, a / bound, b / bound,
               c / bound);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void measure_all(Transport& transport, const Wanted& wanted) {
  set_compute_threads(1);
  if (transport.rank() == 0) {
    fmt::print(
        "| ranks | bytes | MPI_Allreduce, ms | ring, ms | default, ms | default / MPI |{}\n|{}\n",
        wanted.gigabits > 0 ? " bound, ms | MPI / bound | ring / bound | default / bound |" : "",
        wanted.gigabits > 0 ? "---|---|---|---|---|---|---|---|---|---|"
                            : "---|---|---|---|---|---|");
  }
  for (std::int64_t bytes = wanted.smallest; bytes <= wanted.largest; bytes *= 4)
    measure(transport, bytes, wanted);
}

}  // namespace
#endif

int main(int count, char** arguments) {
  CLI::App app("Own all-reduce against MPI_Allreduce; start it with mpirun");
#if PLANGRAD_MPI
  Wanted wanted;
  app.add_option("--gigabits", wanted.gigabits,
                 "rate of the network in Gbit/s, to print the bound");
  app.add_option("--smallest", wanted.smallest,
                 "bytes of the smallest sum; the next has four times as many");
  app.add_option("--largest", wanted.largest, "bytes of the largest sum");
  app.add_option("--piece", wanted.piece, "bytes that are sent at once");
  app.add_flag("--fastest", wanted.fastest,
               "print the fastest of the rounds, for a machine that others use, not the median");
  CLI11_PARSE(app, count, arguments);
  plangrad::parallel::MpiWorld world;
  world.run([&](Transport& transport) { measure_all(transport, wanted); });
#else
  CLI11_PARSE(app, count, arguments);
  std::cerr << "plangrad was built without MPI, which this compares with\n";
  return 1;
#endif
}
