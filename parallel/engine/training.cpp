// Cuts a model evenly by FLOPs. Checks that codecs have an effect on a model: a flag without effect
// is an error.
// Not here: the planner, which weighs memory and messages, too. Chapters 06 and 10.
#include "parallel/engine/training.h"

#include <limits>

#include "parallel/codecs/low_rank.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

/// The first n layers in s stages are `cut` layers in s - 1 stages, and a stage of the rest.
std::vector<int> partition(const std::vector<double>& costs, int stages, const StageFits& fits) {
  const int layers = static_cast<int>(costs.size());
  std::vector<double> before(layers + 1, 0);
  for (int i = 0; i < layers; ++i) before[i + 1] = before[i] + costs[i];

  // best[s][n]: the largest part when the first n layers make s stages; from[s][n]: its last cut.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, never));
  std::vector<std::vector<int>> from(stages + 1, std::vector<int>(layers + 1, 0));
  best[0][0] = 0;
  // [snippet partition]
  for (int s = 1; s <= stages; ++s)
    for (int n = s; n <= layers; ++n)
      for (int cut = s - 1; cut < n; ++cut) {
        const double largest = std::max(best[s - 1][cut], before[n] - before[cut]);
        if (largest < best[s][n] && (!fits || fits(s - 1, cut, n))) {
          best[s][n] = largest;
          from[s][n] = cut;
        }
      }
  // [end snippet]

  if (best[stages][layers] == never) return {};
  std::vector<int> cuts(stages + 1);
  cuts[stages] = layers;
  for (int s = stages; s > 0; --s) cuts[s - 1] = from[s][cuts[s]];
  return cuts;
}

/// Cuts a model so that the most expensive stage costs least, by the layers' flops.
/// shapes: stages + 1 ascending numbers of layers, from 0 on
static std::vector<int> balanced_cuts(const Model& model, int stages) {
  int layers = static_cast<int>(model.size());
  PG_CHECK(stages > 0 && stages <= layers, "a model of ", counted(layers, "layer"),
           " can't be cut into ", counted(stages, "stage"), "; use a --stages of at most ", layers);
  // A layer whose arithmetic is unknown or none (an embedding) still counts a little, so that ties
  // between cuts are settled in one way.
  std::vector<double> costs;
  for (const LayerSpec& layer : model) costs.push_back(layer.flops + 1);
  return partition(costs, stages);
}

Training::Training(const Model& model, int stages, const std::vector<double>& cuts)
    : Training(cuts.empty() ? CutModel{model, balanced_cuts(model, stages)}
                            : cut_model(model, cuts)) {}

Training::Training(CutModel found)
    : model(std::move(found.model)),
      cuts(std::move(found.cuts)),
      shared(shared_parameters(model, cuts)),
      whole(whole_parameters(model)),
      optimizer([](const ParameterList& parameters, const Tensor& weights) {
        return make_adamw(parameters, weights);
      }) {}

void Training::fill(const ParameterList& parameters, const Tensor& weights) const {
  if (first_weights)
    first_weights(parameters, weights);
  else
    initialize(parameters, weights, seed);
}

std::vector<Parameter> summed_parameters(const Plan& plan, const Training& training) {
  std::set<int> summed;
  for (int rank = 0; rank < plan.ranks(); ++rank) summed.merge(summed_stages(plan, rank));
  std::vector<Parameter> all;
  for (int stage : summed) {
    ParameterList list = training.shared.parameters;
    if (stage < training.stages())
      list = Stage(training.model, training.cuts[stage], training.cuts[stage + 1],
                   training.shared.parameters)
                 .parameters();
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

void check_codecs(const Plan& plan, const Training& training) {
  if (plan.steps == 0) return;
  const WhichCodecs smaller = [](const CodecKind& kind) {
    return kind.is_for_activations() && !kind.keeps_bf16;
  };
  PG_CHECK(
      plan.channel.is_none() || !plan.channel.kind().keeps_bf16 || training.dtype != DType::bf16,
      "--codec-channel ", print(plan.channel), ": activations of this run are bf16 already; ",
      "leave it out, or use ", codecs_to_use(smaller));
  if (plan.codec.is_none()) return;
  const std::vector<Parameter> summed = summed_parameters(plan, training);
  std::int64_t rank = 0;  // the highest that makes factors smaller than a matrix; 0: none does
  for (const Parameter& parameter : summed) rank = std::max(rank, highest_rank(parameter));
  const std::string codec = print(plan.codec);
  PG_CHECK(std::ranges::any_of(summed, is_encoded), "--codec ", codec,
           ": of the sums that leave their ranks, only those of ",
           "1024 elements or more and more than one dimension are encoded, and this model has ",
           "none; leave it out, or train a larger model");
  PG_CHECK(is_local(plan.codec) || rank > 0, "--codec ", codec, ": no matrix of this model ",
           "is larger than two factors of it; use ", codecs_to_use(for_activations));
  PG_CHECK(is_local(plan.codec) || plan.codec.rank <= rank, "--codec ", codec, ": factors ",
           "of rank ", plan.codec.rank, " are larger than any matrix of this model; use a rank of ",
           rank, " or less");
}

}  // namespace plangrad::parallel
