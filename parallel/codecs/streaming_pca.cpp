// Streaming PCA's phases. A whole sum carries all that was left out before, and leaves nothing out.
// Chapter 10; Mitliagkas et al. 2013.
#include "parallel/codecs/low_rank.h"

namespace plangrad::parallel {
namespace {

// [snippet class]
/// All ranks have the same orthonormal Q:
///   gradient = (sum of M Q) Q^T
/// In the first use and in every `period`-th after it, gradients are summed as they are, and each
/// rank lets Q follow the sum G by power steps Q = orth(G^T orth(G Q)). Q is never sent.
/// source: Mitliagkas et al. 2013, algorithm 1, which takes one such step for each batch
class StreamingPca : public LowRank {
 public:
  using LowRank::LowRank;
  Tensor first_factors(const Tensor& gradient, int version) override;
  Tensor second_factors() override { return {}; }
  void write_sum(const Tensor& gradient) override;
  std::int64_t most_buffered() const override { return factoring_.count; }

 private:
  bool sums_whole() const { return state_.uses % spec_.period == 0; }
  Tensor whole(const Tensor& gradient, int version);
  void follow(const FactoredPart& part, const Tensor& gradient) const;
};
// [end snippet]

/// Power steps of a use: from random columns, two find a basis nearly as good as the best one.
/// source: Halko, Martinsson and Tropp 2011, section 1.6
constexpr int power_steps = 2;

Tensor StreamingPca::first_factors(const Tensor& gradient, int version) {
  if (sums_whole()) return whole(gradient, version);
  begin(version, factoring_.first);
  for (const FactoredPart& part : factoring_.parts) {
    project(part, gradient);
    if (part.is_factored()) subtract(part, p(part), q(part));
  }
  return first_;
}

Tensor StreamingPca::whole(const Tensor& gradient, int version) {
  begin(version, factoring_.count);
  gradient.backend().copy(state_.residual, first_);
  gradient.backend().accumulate(gradient, first_);
  gradient.backend().fill(0, state_.residual);
  for (const FactoredPart& part : factoring_.parts)
    check_finite(part, first_.window(part.offset, {part.count}), "gradient");
  return first_;
}

void StreamingPca::write_sum(const Tensor& gradient) {
  if (sums_whole()) gradient.backend().copy(first_, gradient);
  for (const FactoredPart& part : factoring_.parts) {
    if (!sums_whole())
      expand(part, gradient);
    else
      follow(part, gradient);
  }
}

void StreamingPca::follow(const FactoredPart& part, const Tensor& gradient) const {
  check_finite(part, gradient.window(part.offset, {part.count}), "sum of gradients");
  if (!part.is_factored()) return;
  Tensor g = matrix(gradient, part.offset, part.rows, part.columns), q = LowRank::q(part);
  Tensor p = matrix(buffer(part.rows * factoring_.rank), 0, factoring_.rank, part.rows);
  for (int step = 0; step < power_steps; ++step) {
    g.backend().gemm({.transpose_b = true}, q, g, {}, p);
    orthonormalize_factor(part, p);
    g.backend().gemm({}, p, g, {}, q);
    orthonormalize_factor(part, q);
  }
}

}  // namespace

CodecEntry pca_codec() {
  CodecNumber period = period_number;
  period.least = 2;
  period.use = "use 2 or more, as one sum in it is whole";
  return {low_rank_kind("pca", {period}), nullptr, made<LowRank, StreamingPca>};
}

}  // namespace plangrad::parallel
