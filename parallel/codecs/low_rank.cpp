// What both ways share: which matrices are factored, where factors stand in the buffers, the state.
// Not here: the phases (power_sgd.cpp, streaming_pca.cpp).
// Chapter 10.
#include "parallel/codecs/low_rank.h"

#include "autograd/backend.h"
#include "parallel/codecs/filter.h"
#include "parallel/codecs/not_finite.h"
#include "parallel/codecs/orthonormal.h"

namespace paragrad::parallel {

std::int64_t highest_rank(const Parameter& parameter) {
  if (!is_encoded(parameter)) return 0;
  const std::int64_t count = parameter.shape.numel(), rows = parameter.shape[0];
  return (count - 1) / (rows + count / rows);
}

Factoring factoring(const ParameterList& parameters, std::int64_t rank) {
  PG_CHECK(rank > 0, "low rank: expected a rank of 1 or more, got ", rank);
  Factoring result{{}, rank, parameters.numel(), 0, 0};
  for (const Parameter& parameter : parameters) {
    FactoredPart part{parameter.name, parameter.offset, parameter.shape.numel(), 0, 0,
                      result.first,   result.second};
    if (rank <= highest_rank(parameter)) {
      part.rows = parameter.shape[0];
      part.columns = part.count / part.rows;
    }
    result.first += part.is_factored() ? part.rows * rank : part.count;
    result.second += part.columns * rank;
    result.parts.push_back(part);
  }
  return result;
}

Tensor matrix(const Tensor& buffer, std::int64_t at, std::int64_t rows, std::int64_t columns) {
  return buffer.window(at, {1, rows, columns});
}

LowRank::LowRank(const CodecSpec& spec, const ParameterList& parameters, std::uint64_t seed,
                 const DevicePtr& device)
    : factoring_(factoring(parameters, spec.rank)), seed_(seed), device_(device) {
  state_.residual = buffer(factoring_.count);
  state_.factors = buffer(factoring_.second);
  device->backend().fill(0, state_.residual);
  for (const FactoredPart& part : factoring_.parts)
    if (part.is_factored()) device->backend().fill_normal(key(part), 0, 1, q(part));
}

void LowRank::restore(const FactorState& state) {
  PG_CHECK(state.residual.shape() == state_.residual.shape() &&
               state.factors.shape() == state_.factors.shape(),
           "low rank: expected a residual ", state_.residual, " and factors ", state_.factors,
           ", got ", state.residual, " and ", state.factors);
  device_->backend().copy(state.residual, state_.residual);
  device_->backend().copy(state.factors, state_.factors);
  state_.uses = state.uses;
}

Tensor LowRank::buffer(std::int64_t count) const {
  // Its category is named, not the device's mode: any thread may do that.
  std::int64_t bytes = count * size_of(DType::f32);
  auto storage = std::make_shared<Storage>(device_, bytes, Category::communication);
  return {storage, 0, {count}, DType::f32};
}

Tensor LowRank::p(const FactoredPart& part) const {
  return matrix(first_, part.first, factoring_.rank, part.rows);
}

Tensor LowRank::q(const FactoredPart& part) const {
  return matrix(state_.factors, part.second, factoring_.rank, part.columns);
}

Tensor LowRank::residual(const FactoredPart& part) const {
  return matrix(state_.residual, part.offset, part.rows, part.columns);
}

void LowRank::check_gradient(const Tensor& gradient) const {
  PG_CHECK(gradient.dtype() == DType::f32 && gradient.shape() == Shape{factoring_.count},
           "low rank: expected a gradient f32 (", factoring_.count, "), got ", gradient);
}

void LowRank::check_finite(const FactoredPart& part, const Tensor& x, const char* what) const {
  check_encodable(all_finite(x), text("step ", version_, ": the ", what, " of ", part.name, " is"));
}

RandomKey LowRank::key(const FactoredPart& part) const {
  return {seed_, text("factors of ", part.name)};
}

void LowRank::orthonormalize_factor(const FactoredPart& part, const Tensor& x) const {
  orthonormalize(x.window(0, {x.size(1), x.size(2)}), key(part));
}

void LowRank::begin(const Tensor& gradient, int version, std::int64_t count) {
  check_gradient(gradient);
  version_ = version;
  first_ = buffer(count);
}

void LowRank::end() {
  first_ = second_ = {};
  ++state_.uses;
}

Tensor LowRank::sent(const FactoredPart& part) const {
  return part.is_factored() ? p(part) : first_.window(part.first, {part.count});
}

// [snippet project]
void LowRank::project(const FactoredPart& part, const Tensor& gradient) const {
  Tensor mine = gradient.window(part.offset, {part.count});
  if (part.is_factored()) {
    gradient.backend().accumulate(mine, residual(part));
    gradient.backend().gemm({.transpose_b = true}, q(part), residual(part), {}, p(part));
  } else {
    // Another codec, or another rank, may have left out a part of it.
    const Tensor left_out = state_.residual.window(part.offset, {part.count});
    gradient.backend().copy(mine, sent(part));
    gradient.backend().accumulate(left_out, sent(part));
    gradient.backend().fill(0, left_out);
  }
  check_finite(part, sent(part), "gradient");
}

void LowRank::expand(const FactoredPart& part, const Tensor& gradient) const {
  check_finite(part, sent(part), "sum of gradients");
  if (part.is_factored())
    gradient.backend().gemm({.transpose_a = true}, p(part), q(part), {},
                            matrix(gradient, part.offset, part.rows, part.columns));
  else
    gradient.backend().copy(sent(part), gradient.window(part.offset, {part.count}));
}

void LowRank::subtract(const FactoredPart& part, const Tensor& p, const Tensor& q) const {
  Tensor negative = buffer(p.numel()).window(0, p.shape());
  p.backend().affine(p, -1, 0, negative);
  p.backend().gemm({.transpose_a = true, .add = true}, negative, q, {}, residual(part));
}
// [end snippet]

CodecKind low_rank_kind(const char* name, const std::vector<CodecNumber>& more) {
  CodecNumber rank{"RANK", &CodecSpec::rank, "the rank", "use 1 column or more, such as lowrank:4"};
  rank.may_lack = false;
  CodecKind kind{.name = name, .numbers = {rank}, .leaves_out = true};
  kind.numbers.insert(kind.numbers.end(), more.begin(), more.end());
  return kind;
}

}  // namespace paragrad::parallel
