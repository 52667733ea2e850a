// Residuals are named by the rank that wrote them: "residual-3/wte.weight". Factors are the same on
// all ranks: "factors/wte.weight".
// Chapter 10.
#include "parallel/codec_state.h"

#include <algorithm>

#include "autograd/backend.h"
#include "parallel/lifetimes.h"
#include "parallel/transports/at_work.h"

namespace paragrad::parallel {

using nlohmann::json;

namespace {

using State = std::map<std::int64_t, std::vector<double>>;

std::string residual_name(int rank) { return text("residual-", rank); }

/// Pairs, because names of JSON are texts.
json to_json(const State& state) {
  json all = json::array();
  for (const auto& [place, numbers] : state) all.push_back({place, numbers});
  return all;
}

State to_state(const json& saved) {
  State state;
  for (const json& entry : saved) state[entry[0]] = entry[1].get<std::vector<double>>();
  return state;
}

/// The factors of a stage as parameters of a flat buffer.
ParameterList factor_list(const Factoring& factoring) {
  ParameterList list;
  for (const FactoredPart& part : factoring.parts)
    if (part.is_factored()) list.add(part.name, {factoring.rank, part.columns}, Init::constant(0));
  return list;
}

/// By stage, flat; of codecs that leave something out.
std::map<int, Tensor> residuals(Engine& engine) {
  std::map<int, Tensor> all;
  for (auto& [stage, codec] : engine.codecs())
    if (codec.residual().defined()) all[stage] = codec.residual();
  for (auto& [stage, low_rank] : engine.low_ranks()) all[stage] = low_rank->state().residual;
  return all;
}

/// Ranks that may encode a stage's sums.
std::vector<int> summing_ranks(const Plan& plan, int stage) {
  std::vector<int> ranks;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    if (summed_stages(plan, rank).contains(stage)) ranks.push_back(rank);
  return ranks;
}

/// Of `saved_ranks`. Sums are divided by the microbatches of a step when it is made, so what was
/// left out of sums over more of them counts less.
void read_residual(const Checkpoint& checkpoint, int saved_ranks, double scale, Engine& engine,
                   const Plan& plan, int stage, const Tensor& residual) {
  const std::vector<int> ranks = summing_ranks(plan, stage);
  residual.backend().fill(0, residual);
  for (int saved = 0; saved < saved_ranks; ++saved) {
    const bool here = std::count(ranks.begin(), ranks.end(), saved) > 0;
    if ((here ? saved : ranks.front()) != engine.transport().rank()) continue;
    for (const Parameter& parameter : engine.parameters(stage)) {
      const Tensor part = residual.window(parameter.offset, parameter.shape);
      const Tensor read =
          empty(parameter.shape, part.dtype(), part.device(), Category::communication);
      if (!checkpoint.load_state_if_any(residual_name(saved), parameter, read)) continue;
      if (scale != 1) part.backend().affine(read, scale, 0, read);
      part.backend().accumulate(read, part);
    }
  }
}

}  // namespace

std::vector<CheckpointFile> write_codec_state(const std::filesystem::path& folder, Engine& engine,
                                              const Plan& plan, std::int64_t step) {
  std::vector<CheckpointFile> files;
  const int rank = engine.transport().rank();
  AtWork saving(engine.transport(), Work::saving);
  for (const auto& [stage, residual] : residuals(engine))
    files.push_back(write_checkpoint_file(folder, text("residual_", rank, '_', stage), step,
                                          engine.parameters(stage),
                                          {{residual_name(rank), residual}}));
  for (auto& [stage, low_rank] : engine.low_ranks()) {
    const ParameterList list = factor_list(low_rank->parts());
    if (list.numel() == 0 || summing_ranks(plan, stage).front() != rank) continue;
    files.push_back(write_checkpoint_file(folder, text("factors_", stage), step, list,
                                          {{"factors", low_rank->state().factors}}));
  }
  return files;
}

json codec_numbers(Engine& engine) {
  json numbers{{"thresholds", json::object()}, {"uses", 0}};
  for (auto& [stage, codec] : engine.codecs())
    numbers["thresholds"][std::to_string(stage)] = to_json(codec.state());
  if (engine.channel()) numbers["thresholds"]["channel"] = to_json(engine.channel()->state());
  for (auto& [stage, low_rank] : engine.low_ranks()) numbers["uses"] = low_rank->state().uses;
  return numbers;
}

json codec_layout(const Engine& engine, const Plan& plan) {
  const Engine::Settings& settings = engine.settings();
  return {{"codec", print(plan.codec)},     {"channel", print(plan.channel)},
          {"cuts", engine.training().cuts}, {"ranks", plan.ranks()},
          {"per_step", plan.per_step},      {"reduction", name_of(settings.reduction)},
          {"hosts", settings.hosts}};
}

std::string lost_residual(const Checkpoint& checkpoint, const Plan& plan) {
  const json saved = checkpoint.run().value("codec", json::object());
  if (saved.empty() || leaves_out(plan.codec)) return "";
  const CodecSpec before = parse_codec(saved.at("layout").at("codec"));
  if (!leaves_out(before)) return "";
  return text("what ", print(before), " has left out of gradients so far is lost, as --codec ",
              print(plan.codec), " adds nothing later; resume with ", print(before), " to keep it");
}

void read_codec_state(const Checkpoint& checkpoint, Engine& engine, const Plan& plan) {
  const json saved = checkpoint.run().value("codec", json::object());
  if (saved.empty()) return;
  const json& layout = saved.at("layout");
  const double scale = plan.per_step / layout.at("per_step").get<double>();
  for (const auto& [stage, residual] : residuals(engine))
    read_residual(checkpoint, layout.at("ranks"), scale, engine, plan, stage, residual);
  const bool same_kind = parse_codec(layout.at("codec")).kind == plan.codec.kind;
  for (auto& [stage, low_rank] : engine.low_ranks()) {
    if (!same_kind) break;  // a basis and factors are not each other
    FactorState state = low_rank->state();
    const ParameterList list = factor_list(low_rank->parts());
    bool all = true;
    for (const Parameter& factor : list)
      all &= checkpoint.load_state_if_any("factors", factor,
                                          state.factors.window(factor.offset, factor.shape));
    state.uses = all ? saved.at("numbers")[0].at("uses").get<std::int64_t>() : 0;
    low_rank->restore(state);
  }
  if (layout != codec_layout(engine, plan)) return;
  const json& thresholds = saved.at("numbers")[engine.transport().rank()].at("thresholds");
  for (auto& [stage, codec] : engine.codecs())
    codec.restore(to_state(thresholds.value(std::to_string(stage), json::array())));
  if (engine.channel())
    engine.channel()->restore(to_state(thresholds.value("channel", json::array())));
}

}  // namespace paragrad::parallel
