// How far sums of quantized gradients are from exact ones, by the way of summing and the number of
// ranks: scatter-reduce encodes each gradient and the sum once, a ring encodes at every hop.
//   build/bin/benchmarks/reduction_error [--codec quantize:4] [--out FOLDER]
// Not here: what errors do to a loss (tutorials/measure.sh, part codecs). Chapter 10.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <numeric>

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/file.h"
#include "parallel/codecs/message_codec.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/benchmarks/chart.h"

namespace {

using namespace plangrad::parallel;
namespace nn = plangrad::nn;

constexpr std::int64_t rows = 512, columns = 1024;

/// Normal values, others on each rank.
Tensor gradient_of(int rank) {
  Tensor x = empty({rows * columns}, DType::f32, cpu_device());
  x.backend().fill_normal({1, fmt::format("gradient of rank {}", rank)}, 0, 1, x);
  return x;
}

nn::ParameterList one_matrix() {
  nn::ParameterList list;
  list.add("matrix", {rows, columns}, nn::Init::constant(0));
  return list;
}

BufferCodec codec_of(const nn::ParameterList& list, const CodecSpec& spec, int rank) {
  return {list, spec, {1, fmt::format("codec of rank {}", rank)}, cpu_device()};
}

/// Of `values`, as a share of the length of `exact`.
double relative_error(const std::vector<double>& values, const std::vector<double>& exact) {
  double error = 0, length = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (values[i] - exact[i]) * (values[i] - exact[i]);
    length += exact[i] * exact[i];
  }
  return std::sqrt(error / length);
}

/// Of an encoding.
double encoding_error(const CodecSpec& spec) {
  const nn::ParameterList list = one_matrix();
  BufferCodec codec = codec_of(list, spec, 0);
  const Range all{0, rows * columns};
  Tensor x = gradient_of(0);
  const std::vector<double> exact = to_host(x);
  codec.encode(x, all, 1, true, empty({codec.encoded_bytes(all)}, DType::u8, cpu_device()));
  return relative_error(to_host(x), exact);
}

/// The first rank's sum; the others have the same bits.
std::vector<double> sum_over(int ranks, AllReduce how, const CodecSpec& spec) {
  std::vector<double> result;
  run_ranks(ranks, [&](Transport& transport) {
    set_compute_threads(1);
    const nn::ParameterList list = one_matrix();
    BufferCodec codec = codec_of(list, spec, transport.rank());
    std::vector<int> members(ranks);
    std::iota(members.begin(), members.end(), 0);
    Tensor x = gradient_of(transport.rank());
    CollectiveRun run(all_reduce({how}, transport.rank(), ranks), x, members, group_channel(0),
                      default_piece, {&codec, 1});
    finish(run, transport, 60);
    if (transport.rank() == 0) result = to_host(x);
  });
  return result;
}

std::vector<double> exact_sum(int ranks) {
  std::vector<double> sum(rows * columns);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<double> x = to_host(gradient_of(rank));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
  }
  return sum;
}

/// Encodings leave out the share e of their values' deviation, each on its own; k gradients' sum
/// has the deviation sqrt(k) of one's. In e^2, of W ranks' sum, all of them end at:
///   scatter   1 + (W-1) / W                  the sum, and W-1 gradients
///   ring      1 + (1 + 2 + ... + W-1) / W    the sum, and sums of 1, 2, ..., W-1 gradients
///   tree      1 + log2(W) / 2                the sum, and W/2 gradients' worth at each level
double expected(AllReduce how, int ranks, double encoding) {
  double others = std::log2(ranks) / 2;
  if (how == AllReduce::scatter_reduce) others = (ranks - 1.0) / ranks;
  if (how == AllReduce::ring) others = (ranks - 1.0) / 2;
  return encoding * std::sqrt(1 + others);
}

Curve measure(const CodecSpec& spec) {
  const double encoding = encoding_error(spec);
  fmt::print(
      "Normal values, `{}`; an encoding's relative error is {:.4f}. Relative errors of sums, and "
      "what\nindependent errors of encodings add up to:\n\n"
      "| ranks | scatter | expected | ring | expected | tree | expected |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n",
      print(spec), encoding);
  Curve curve{
      fmt::format("Relative error of sums, {}", print(spec)), "ranks", "relative error", {}};
  for (const char* name : {"scatter", "ring", "tree"}) curve.series.push_back({name, {}, {}});
  for (int ranks : {2, 4, 8, 16}) {
    fmt::print("| {} |", ranks);
    const std::vector<double> exact = exact_sum(ranks);
    for (Series& series : curve.series) {
      const AllReduce how = reductions().at(series.name);
      series.x.push_back(ranks);
      series.y.push_back(relative_error(sum_over(ranks, how, spec), exact));
      fmt::print(" {:.3f} | {:.3f} |", series.y.back(), expected(how, ranks, encoding));
    }
    fmt::print("\n");
  }
  return curve;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Errors of sums of quantized gradients, by the way of summing");
  std::string codec = "quantize:4", out;
  app.add_option("--codec", codec, "codec of the sums");
  app.add_option("--out", out, "folder for the figure")->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  const Curve curve = measure(parse_codec(codec));
  if (!out.empty())
    nn::write_file(std::filesystem::path(out) / "reduction_error.svg", curve_chart(curve));
}
