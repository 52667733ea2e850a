// What a GPT's training step costs a GPU, kernel by kernel, as the emulator counts it: launches and
// bytes beside the least bytes that each part of the step needs. Facts of a model, and no times.
// Not here: the model (cuda/emulator/counted/counters.h), and speed (gpu_training.cpp). Chapter 12.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/version.h"
#include "cuda/backend/cuda_backend.h"
#include "cuda/emulator/counted/counters.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/transports/threads_transport.h"
#include "tests/benchmarks/gpt_sizes.h"
#include "tests/benchmarks/step_parts.h"

namespace {

using namespace plangrad::benchmarks;
using namespace plangrad::cuda::emulator;
using nlohmann::json;

/// Heads of 64 values, as GPT-2 has; the rest is small.
const Size small_gpt{"small", {2, 4, 256, 128, 2048, 0, true}, 4};

struct Step {
  std::vector<KernelCounters> kernels;
  double parameters = 0;
};

/// Counts the second step: the first one also fills the weights.
Step count_step(const Size& size) {
  Training training(gpt(size.config), 1);
  training.dtype = DType::bf16;
  SameTokens tokens(size, 1);
  ThreadsWorld world(1);
  Engine engine(training, world.transport(0), plangrad::cuda::cuda_device(0), {});
  for (int first : {0, 1}) {
    reset_counters();
    engine.run(verify(make_plan("data", {.steps = 1, .first = first, .clip = true})), tokens);
  }
  return {by_kernel(counters()), static_cast<double>(training.whole.numel())};
}

/// "each_kernel" runs a function for each element, whose name says more.
std::string table_name(const std::string& name) {
  std::string result = short_name(name);
  const std::string each = "each_kernel<&", of_template = each + "(void ";
  if (result.starts_with(of_template))
    result = short_name(result.substr(of_template.size()));
  else if (result.starts_with(each))
    result = result.substr(each.size(), result.find(',') - each.size());
  for (std::size_t at; (at = result.find("__nv_bfloat16")) != std::string::npos;)
    result.replace(at, 13, "bf16");
  return result;
}

// ---- parts -----------------------------------------------------------------------------------

/// Launches, bytes of device memory, operations of matrix products, and conflicts in shared memory.
struct Sum {
  double launches = 0, bytes = 0, flops = 0, conflicts = 0;
};

json to_json(const Step& step) {
  json result = {{"version", plangrad::autograd::version()}, {"kernels", json::array()}};
  for (const KernelCounters& k : step.kernels)
    result["kernels"].push_back({{"name", table_name(k.name)},
                                 {"launches", k.counts.launches},
                                 {"bytes", k.counts.device_bytes()},
                                 {"flops", k.counts.flops},
                                 {"bank conflicts", k.counts.bank_conflicts()}});
  return result;
}

/// A sum for each part; a kernel belongs to the first part that names it.
std::vector<Sum> sums_of(const json& step, const std::vector<StepPart>& parts) {
  std::vector<Sum> sums(parts.size());
  for (const json& kernel : step.at("kernels")) {
    const auto name = kernel.at("name").get<std::string>();
    auto is_named = [&](const StepPart& part) {
      return std::any_of(part.kernels.begin(), part.kernels.end(),
                         [&](const std::string& start) { return name.starts_with(start); });
    };
    Sum& sum = sums[std::find_if(parts.begin(), parts.end(), is_named) - parts.begin()];
    sum.launches += kernel.at("launches").get<double>();
    sum.bytes += kernel.at("bytes").get<double>();
    sum.flops += kernel.at("flops").get<double>();
    sum.conflicts += kernel.value("bank conflicts", 0.0);
  }
  return sums;
}

std::string kilobytes(double bytes) {
  return bytes == 0 ? "-" : fmt::format("{:.0f}", bytes / 1e3);
}

void print_parts(const std::vector<StepPart>& parts, const std::vector<Sum>& sums,
                 const std::vector<Sum>& before) {
  const bool both = !before.empty();
  fmt::print(
      "| part | {}launches | {}kB of device memory | least kB | ratio | kB unfused | MFLOP of "
      "products | bank conflicts |\n| --- |{} --- | --- | --- | --- | --- | --- | --- |\n",
      both ? "launches before | " : "", both ? "kB before | " : "", both ? " --- | --- |" : "");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const StepPart& part = parts[i];
    const Sum& sum = sums[i];
    if (sum.launches == 0 && (!both || before[i].launches == 0)) continue;
    fmt::print(
        "| {} | {}{} | {}{} | {} | {} | {} | {} | {} |\n", part.name,
        both ? fmt::format("{} | ", before[i].launches) : "", sum.launches,
        both ? kilobytes(before[i].bytes) + " | " : "", kilobytes(sum.bytes), kilobytes(part.least),
        part.least > 0 ? fmt::format("{:.2f}", sum.bytes / part.least) : "-",
        kilobytes(part.unfused), sum.flops > 0 ? fmt::format("{:.0f}", sum.flops / 1e6) : "-",
        sum.conflicts > 0 ? fmt::format("{:.0f}", sum.conflicts) : "-");
  }
}

Sum total(const std::vector<Sum>& sums) {
  Sum result;
  for (const Sum& sum : sums) {
    result.launches += sum.launches;
    result.bytes += sum.bytes;
    result.flops += sum.flops;
  }
  return result;
}

// ---- kernels ---------------------------------------------------------------------------------

std::string blocks_per_sm(const KernelCounters& k) {
  if (k.counts.threads == 0) return "-";
  const int threads = static_cast<int>(k.block.x * k.block.y * k.block.z);
  const Occupancy a = occupancy(80, threads, k.shared_bytes());
  const Occupancy h = occupancy(90, threads, k.shared_bytes());
  return fmt::format("{}, {} ({})", a.blocks, h.blocks, h.limit);
}

void print_kernels(const std::vector<KernelCounters>& kernels) {
  fmt::print(
      "\n| kernel | launches | threads | kB of device memory | kB without a cache | lanes | bank "
      "conflicts | barriers | shuffles | mma | blocks per SM of an A100, of an H100 |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const KernelCounters& k : kernels) {
    const Counters& c = k.counts;
    fmt::print("| `{}` | {} | {} | {} | {} | {:.0f}% | {} | {} | {} | {} | {} |\n",
               table_name(k.name), c.launches, c.threads,
               kilobytes(static_cast<double>(c.device_bytes())),
               kilobytes(static_cast<double>(c.sector_bytes())), 100 * c.active(),
               c.bank_conflicts(), c.barriers, c.shuffles, c.mmas, blocks_per_sm(k));
  }
}

/// "2026-11-25"
std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

void run(const std::string& before_file, bool lists_kernels, const std::string& json_file) {
  const GptConfig& c = small_gpt.config;
  const Step step = count_step(small_gpt);
  const std::vector<StepPart> parts = parts_of(c, small_gpt.batch * c.context, step.parameters);
  const std::vector<Sum> sums = sums_of(to_json(step), parts);
  fmt::print(
      "Counted on {} by the emulator, which tells no times: one training step of a GPT with {} "
      "layers of width {}, {} heads, {} tokens known, {} x {} tokens, {:.0f} parameters, in bf16, "
      "with a clipped norm. plangrad {}: {} launches, {:.1f} MB of device memory.\n\n",
      today(), c.layers, c.width, c.heads, c.vocabulary, small_gpt.batch, c.context,
      step.parameters, plangrad::autograd::version(), total(sums).launches,
      total(sums).bytes / 1e6);
  std::vector<Sum> before;
  if (!before_file.empty()) {
    std::ifstream in(before_file);
    PG_CHECK(in.good(), "--before: could not read ", before_file);
    const json earlier = json::parse(in);
    before = sums_of(earlier, parts);
    fmt::print("Before, in plangrad {}: {} launches, {:.1f} MB.\n\n",
               earlier.at("version").get<std::string>(), total(before).launches,
               total(before).bytes / 1e6);
  }
  print_parts(parts, sums, before);
  if (lists_kernels) print_kernels(step.kernels);
  if (json_file.empty()) return;
  std::ofstream out(json_file);
  out << to_json(step).dump(1) << std::endl;
  PG_CHECK(out.good(), "could not write ", json_file, "; give a file in a folder that is there");
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Counts what each kernel of a GPT's training step costs a GPU, on the emulator");
  std::string before, file;
  app.add_option("--before", before, "a file of an earlier --json, to stand beside");
  bool kernels = false;
  app.add_flag("--kernels", kernels, "also lists the kernels");
  app.add_option("--json", file, "also writes the kernels there");
  CLI11_PARSE(app, argc, argv);
  run(before, kernels, file);
} catch (const std::exception& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 1;
}
