// PowerSGD's phases. Between them the residual holds M itself: the gradient and what was left out
// before.
// Chapter 10; Vogels et al. 2019.
#include "parallel/codecs/low_rank.h"

namespace plangrad::parallel {
namespace {

// [snippet class]
/// One use, with a matrix M on each rank and sums over all ranks:
///   P = orth(sum of M Q),  Q = sum of M^T P,  gradient = P Q^T = P P^T (sum of M)
/// It is one step of a power iteration, which Q continues from use to use.
/// source: Vogels et al. 2019, algorithms 1 and 2
class PowerSgd : public LowRank {
 public:
  using LowRank::LowRank;
  Tensor first_factors(const Tensor& gradient, int version) override;
  Tensor second_factors() override;
  void write_sum(const Tensor& gradient) override;
};
// [end snippet]

// [snippet power_sgd]
Tensor PowerSgd::first_factors(const Tensor& gradient, int version) {
  begin(version, factoring_.first);
  for (const FactoredPart& part : factoring_.parts) {
    // P spans the same without this, but products of tiny or huge numbers might leave f32's range.
    if (part.is_factored()) orthonormalize_factor(part, q(part));
    project(part, gradient);
  }
  return first_;
}

Tensor PowerSgd::second_factors() {
  if (factoring_.second == 0) return {};
  second_ = buffer(factoring_.second);
  for (const FactoredPart& part : factoring_.parts) {
    if (!part.is_factored()) continue;
    Tensor p = LowRank::p(part);
    check_finite(part, p, "sum of gradients");
    orthonormalize_factor(part, p);
    Tensor q = matrix(second_, part.second, factoring_.rank, part.columns);
    p.backend().gemm({}, p, residual(part), {}, q);
    subtract(part, p, q);
  }
  return second_;
}

void PowerSgd::write_sum(const Tensor& gradient) {
  if (second_.defined()) gradient.backend().copy(second_, state_.factors);
  for (const FactoredPart& part : factoring_.parts) {
    if (part.is_factored()) check_finite(part, q(part), "sum of gradients");
    expand(part, gradient);
  }
}
// [end snippet]

}  // namespace

CodecEntry lowrank_codec() {
  CodecKind kind = low_rank_kind("lowrank");
  kind.sums = 2;  // of P, then of Q
  return {kind, nullptr, made<LowRank, PowerSgd>};
}

}  // namespace plangrad::parallel
