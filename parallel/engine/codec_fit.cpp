// Checks that codecs have an effect on a model: a flag without effect is an error.
// Chapter 10.
#include "parallel/engine/training.h"

#include <algorithm>

#include "nn/models/model.h"
#include "parallel/codecs/codec.h"
#include "parallel/codecs/low_rank.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {
namespace {

/// Selects the codecs whose bits the user sets.
constexpr WhichCodecs with_bits = [](const CodecKind& kind) {
  const decltype(CodecNumber::value) bits = &CodecSpec::bits;
  return std::ranges::count(kind.numbers, bits, &CodecNumber::value) > 0;
};

}  // namespace

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

void check_smaller(const std::string& flag, const CodecSpec& spec, DType dtype) {
  if (spec.kind().keeps_bf16 || !is_local(spec)) return;
  constexpr std::int64_t count = 1 << 20;
  const std::int64_t bytes = encoded_bytes(spec, count, size_of(dtype));
  const std::int64_t plain = count * size_of(dtype);
  PG_CHECK(bytes < plain, flag, ' ', print(spec), " makes messages larger: ", count, " values are ",
           plain, " bytes as they are, and ", bytes,
           " encoded; use fewer bits, larger buckets or a smaller fraction");
}

void check_period(const CodecSpec& spec, int first, int last, bool chosen) {
  if (!spec.kind().chooses_bits || chosen) return;
  PG_CHECK((first / spec.period + 1) * spec.period < last, "--codec ", print(spec), ": bits are ",
           "chosen after each ", spec.period, " updates, and this run ends after ", last,
           " with those that it began with; use ", codecs_to_use(with_bits, true),
           ", more --steps, or a shorter period: ", spec.name, ':', spec.bucket, ":N");
}

}  // namespace plangrad::parallel
