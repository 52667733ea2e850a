// The parts that both codecs share: which matrices are factored, where factors lie in the buffers,
// the state. Factors are made orthonormal on the host, in f64: they are thin, N R^2 products each,
// and a basis that loses its right angles would lose gradients. A device's values are copied to the
// host and back: there is no kernel for it. Chapter 10.
#include "parallel/codecs/low_rank.h"

namespace plangrad::parallel {

static double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

static double length(const double* a, std::int64_t count) { return std::sqrt(dot(a, a, count)); }

/// Removes the directions of the `known` rows before it from `row`, one after the other.
static void remove_known(double* row, std::int64_t known, std::int64_t count) {
  for (std::int64_t k = known; k > 0; --k) {
    const double* direction = row - k * count;
    double share = dot(direction, row, count);
    for (std::int64_t i = 0; i < count; ++i) row[i] -= share * direction[i];
  }
}

void orthonormalize(const Tensor& x, RandomKey key) {
  const std::int64_t rows = x.size(0), count = x.size(1);
  std::vector<double> values = to_host(x);
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = values.data() + r * count;
    double before = length(row, count);
    remove_known(row, r, count);
    // f32 does not resolve a millionth of a row. A longer rest is at right angles to the rows
    // before it within 1e-10, as f64 rounds.
    if (length(row, count) <= 1e-6 * before) {
      for (std::int64_t i = 0; i < count; ++i) row[i] = normal(key, r * count + i);
      remove_known(row, r, count);
    }
    double after = length(row, count);
    for (std::int64_t i = 0; i < count; ++i) row[i] /= after;
  }
  std::vector<float> rounded(values.begin(), values.end());
  x.backend().copy_from_host(rounded.data(), x);
}

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

LowRank::LowRank(const CodecSpec& spec, const ParameterList& parameters, std::uint64_t seed,
                 const DevicePtr& device)
    : spec_(spec), factoring_(factoring(parameters, spec.rank)), seed_(seed), device_(device) {
  state_.residual = buffer(factoring_.count);
  state_.factors = buffer(factoring_.second);
  device->backend().fill(0, state_.residual);
  for (const FactoredPart& part : factoring_.parts)
    if (part.is_factored()) device->backend().fill_normal(key(part), 0, 1, q(part));
}

void LowRank::check_finite(const FactoredPart& part, const Tensor& x, const char* what) const {
  check_encodable(all_finite(x), text("step ", version_, ": the ", what, " of ", part.name, " is"));
}

void LowRank::begin(int version, std::int64_t count) {
  version_ = version;
  first_ = buffer(count);
}

void LowRank::finish(const Tensor& gradient) {
  write_sum(gradient);
  first_ = second_ = {};
  ++state_.uses;
}

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

// [snippet advance]
bool FactoredRun::advance(Transport& transport) {
  if (!first_) first_ = sum_(low_rank_.first_factors(gradient_, version_));
  if (!first_->advance(transport)) return false;
  if (!second_) {
    Tensor factors = low_rank_.second_factors();
    second_ = sum_(factors.defined() ? factors : gradient_.window(0, {0}));
  }
  if (!second_->advance(transport)) return false;
  low_rank_.finish(gradient_);
  return true;
}
// [end snippet]

CodecKind low_rank_kind(const char* name, std::vector<CodecNumber> more) {
  CodecNumber rank{"RANK", &CodecSpec::rank, "the rank", "use 1 column or more, such as lowrank:4"};
  rank.may_lack = false;
  more.insert(more.begin(), rank);
  return {.name = name, .numbers = more, .leaves_out = true};
}

}  // namespace plangrad::parallel
