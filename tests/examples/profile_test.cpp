// Profiles: the model's kernels by name and number, its operations by the formula, and parts that
// add up to the whole; a run's numbers stay as they are.
// Not here: how fast anything is.
#include "examples/profile/profiled_device.h"

#include "autograd/cpu/cpu_backend.h"
#include "examples/profile/profile.h"
#include "nn/checkpoint/file.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;
using namespace plangrad::examples;

namespace {

using nlohmann::json;

/// Calls of all kinds whose name begins so.
KernelCalls calls_of(const KernelTable& table, const std::string& name) {
  KernelCalls all;
  for (const auto& [kind, calls] : table)
    if (kind.starts_with(name)) {
      all.calls += calls.calls;
      all.flops += calls.flops;
      all.bytes += calls.bytes;
    }
  return all;
}

}  // namespace

TEST_CASE("a profile has the kernels of the model, and the operations of its formula",
          "[profile]") {
  const GptConfig config = small_gpt();
  const int layers = config.layers, updates = 3, rows = 4;
  const std::int64_t tokens = rows * config.context, width = config.width;
  Training training(gpt(config), 1);
  SameBatch batch(config, 1, rows);
  const DevicePtr device = profiled_device(cpu_device());
  ThreadsWorld world(1);
  Engine engine(training, world.transport(0), device, {});
  const VerifiedPlan plan = verify(make_plan("data", {.steps = updates, .clip = true}));
  engine.prepare(plan.plan());  // draws weights, which no update does
  KernelProfile& profile = *profile_of(*device);
  profile.begin();
  engine.run(plan, batch);
  profile.end(updates);

  const KernelTable& kernels = profile.kernels();
  for (const auto& [name, each] :
       std::map<std::string, int>{{"gemm NT", 4 * layers + 1},
                                  {"gemm NN", 4 * layers + 1},
                                  {"gemm TN", 4 * layers + 1},
                                  {"attention_backward", layers},
                                  {"layer_norm_backward", 2 * layers + 1},
                                  {"bias_gelu_backward", layers},
                                  {"cross_entropy", 1},
                                  {"embedding_backward", 1}}) {
    INFO(name);
    CHECK(calls_of(kernels, name).calls == updates * each);
  }
  const std::string queries = text("gemm NT ", tokens, 'x', 3 * width, 'x', width);
  REQUIRE(kernels.contains(queries));
  CHECK(kernels.at(queries).calls == updates * layers);
  CHECK(kernels.at(queries).bytes ==  // bf16 would be half; the bias is there, too
        4.0 * updates * layers * (tokens * 4 * width + 3 * width * width + 3 * width));

  // The formula counts pairs of positions that a causal kernel leaves out.
  const double flops = calls_of(kernels, "gemm").flops + 2 * calls_of(kernels, "attention").flops;
  CHECK(flops ==
        updates * static_cast<double>(tokens) * gpt_flops_per_token(config, config.context));

  double seconds = 0;
  for (const auto& [kind, calls] : kernels) seconds += calls.seconds;
  CHECK(seconds > 0);
  CHECK(seconds < profile.seconds());
  CHECK(profile.updates() == updates);
}

TEST_CASE("a session's profile replaces the updates that warm up, and changes no number",
          "[profile][session]") {
  json plain, profiled;
  for (bool with : {false, true}) {
    RunFolder folder;
    auto change = [&](int, SessionSettings& settings) {
      settings.steps = 3;
      if (!with) return;
      settings.observers = [] {
        Observers all = observers_of()();
        all.insert(all.end() - 1, std::make_unique<Profile>());
        return all;
      };
    };
    run_sessions(
        small_training(1), folder, 2, change, [](int) {},
        [&] { return with ? profiled_device(cpu_device()) : cpu_device(); });
    (with ? profiled : plain) = json::parse(read_file(folder / "summary.json"));
  }
  CHECK(plain["loss"] == profiled["loss"]);
  CHECK(plain["validation_loss"] == profiled["validation_loss"]);
  CHECK(!plain.contains("profile"));
  REQUIRE(profiled["profile"].size() == 2);
  for (const json& rank : profiled["profile"]) {
    CHECK(rank["updates"] == 2);
    double kernels = 0;
    for (const json& line : rank["kernels"]) {
      kernels += line["seconds"].get<double>();
      CHECK(line["least_seconds"] > 0);
    }
    CHECK(rank["seconds_between_kernels"] > 0);
    CHECK(rank["seconds"].get<double>() ==
          Approx(kernels + rank["seconds_between_kernels"].get<double>()));
    CHECK(rank["message_lane"].size() > 0);  // which adds up the other replica's gradients
  }
}

TEST_CASE("a profile's table adds up to the update, and rare kernels share a row", "[profile]") {
  RankProfile rank;
  rank.updates = 10;
  rank.seconds = 1;
  rank.rates = {100e9, 50e9, 10e9};
  rank.kernels["gemm NN 512x512x512"] = {DType::bf16, 20, 0.8, 40e9, 1e6};
  rank.kernels["softmax"] = {DType::f32, 10, 0.1, 0, 0.5e9};
  for (const char* rare : {"fill", "copy"}) rank.kernels[rare] = {DType::f32, 10, 0.002, 0, 1e6};
  const std::string one = profile_table({rank}), two = profile_table({rank, rank});
  auto row = [](const std::string& table, const std::string& kind) {
    std::string found = table.substr(table.find("| " + kind));
    found = found.substr(0, found.find('\n'));
    std::erase(found, ' ');
    return found;
  };
  // 40 GFLOP at f32's 100 GFLOP/s, because bf16 can be widened, take half of 0.8 s.
  CHECK(row(one, "gemm") == "|gemmNN512x512x512|2|80.000|80.0%|4.000|0.1|50%|");
  CHECK(row(one, "softmax") == "|softmax|1|10.000|10.0%|0.000|50.0|50%|");
  CHECK(row(one, "2 other kinds") == "|2otherkinds|2|0.400|0.4%|0.000|0.2|5%|");
  CHECK(row(one, "between") == "|betweenkernels||9.600|9.6%||||");
  CHECK(row(one, "update") == "|update||100.000|100.0%||||");
  CHECK(row(two, "gemm") == "|gemmNN512x512x512|4|160.000|80.0%|8.000|0.2|50%|");
}
