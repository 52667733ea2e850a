// Speed of the codecs on one core: bytes read and written in a second, as a share of what copying
// reaches in the same run. The values are more than the caches hold.
// Not here: compressed sums over ranks. Chapter 10.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "parallel/codecs/codec.h"

namespace {

using namespace plangrad::parallel;

/// The shortest time of something, over as many runs as it is given.
struct Best {
  double seconds = 1e9;

  void run(const std::function<void()>& what) {
    auto start = std::chrono::steady_clock::now();
    what();
    std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    seconds = std::min(seconds, passed.count());
  }
};

struct Row {
  std::string name;
  std::unique_ptr<Codec> codec;
  Tensor bytes;
  Best copy, encode, decode;  // as often as each other
};

std::vector<Row> make_rows(const std::vector<std::string>& names, const Tensor& x) {
  std::vector<Row> rows;
  for (const std::string& name : names) {
    auto codec = make_codec(parse_codec(name));
    Tensor bytes = empty({codec->encoded_bytes(x.numel(), x.dtype())}, DType::u8, x.device());
    codec->encode(x, {}, 0, bytes);  // touches the memory, and sets a threshold
    rows.push_back({name, std::move(codec), bytes, {}, {}, {}});
  }
  return rows;
}

/// Runs all in turn, so that each meets the machine's quiet moments.
void measure(std::vector<Row>& rows, const Tensor& x, const Tensor& y, int rounds) {
  for (int round = 0; round < rounds; ++round)
    for (Row& row : rows) {
      row.copy.run([&] { x.backend().copy(x, y); });
      row.encode.run([&] { row.codec->encode(x, RandomKey(round, "round"), 0, row.bytes); });
      row.decode.run([&] { row.codec->decode(row.bytes, y); });
    }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Speed of the codecs on one core, beside that of copying");
  std::int64_t count = 1 << 25;
  int rounds = 15;
  app.add_option("--values", count, "f32 values that are encoded")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "runs, of which the fastest counts")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  set_compute_threads(1);
  DevicePtr device = cpu_device();
  Tensor x = empty({count}, DType::f32, device), y = zeros({count}, DType::f32, device);
  device->backend().fill_normal(RandomKey(1, "x"), 0, 1, x);
  auto rows = make_rows(
      {"bf16", "quantize:2", "quantize:4", "quantize:8", "quantize:2:1024:stochastic",
       "quantize:4:1024:stochastic", "quantize:8:1024:stochastic", "topk:0.01", "threshold:0.01"},
      x);
  measure(rows, x, y, rounds);
  fmt::print("One core, {} f32 values; bytes read and written.\n\n", count);
  fmt::print(
      "| codec | smaller by | copying, GB/s | encode, GB/s | of copying | decode, GB/s | of "
      "copying |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Row& row : rows) {
    double full = static_cast<double>(x.bytes()), less = static_cast<double>(row.bytes.numel());
    double copying = 2 * full / row.copy.seconds / 1e9, moved = (full + less) / 1e9;
    double encode = moved / row.encode.seconds, decode = moved / row.decode.seconds;
    fmt::print("| `{}` | {:.2f} | {:.1f} | {:.1f} | {:.0f}% | {:.1f} | {:.0f}% |\n", row.name,
               full / less, copying, encode, 100 * encode / copying, decode,
               100 * decode / copying);
  }
}
