// Low rank: sums of a stage's gradients over a group, where each matrix is sent as two thin factors
// (PowerSGD) or as coefficients on a basis that all ranks know (streaming PCA).
// Not here: the phases of each (power_sgd.cpp, streaming_pca.cpp). Chapter 10; Vogels et al. 2019
// (PowerSGD), Mitliagkas et al. 2013 (streaming PCA).
#pragma once

#include "parallel/codecs/codec.h"
#include "parallel/collectives/collective_run.h"

namespace plangrad::parallel {

using namespace nn;

/// The place of a parameter's gradient. A matrix M (rows, columns) that is_encoded() selects is
/// factored if (rows + columns) rank < rows columns; more dimensions count as (first, rest). All
/// other parameters travel as they are, with rows = columns = 0.
struct FactoredPart {
  std::string name;
  std::int64_t offset = 0, count = 0;  ///< place in the flat gradient
  std::int64_t rows = 0, columns = 0;
  std::int64_t first = 0;   ///< place in buffer 1: P^T (rank, rows), or the values as they are
  std::int64_t second = 0;  ///< place in buffer 2: Q^T (rank, columns)

  bool is_factored() const { return rows > 0; }
};

/// All parameters of a stage, in flat-buffer order, and the elements of each buffer.
struct Factoring {
  std::vector<FactoredPart> parts;
  std::int64_t rank = 0, count = 0, first = 0, second = 0;
};
Factoring factoring(const ParameterList& parameters, std::int64_t rank);
/// The highest rank at which a parameter is factored; 0: it never is.
std::int64_t highest_rank(const Parameter& parameter);

/// The state that lasts from one use to the next, all f32.
struct FactorState {
  Tensor residual;        ///< what this rank's factors left out, flat like the gradient
  Tensor factors;         ///< all Q, as in the second buffer: the same on all ranks
  std::int64_t uses = 0;  ///< uses so far
};

/// The elements from `at` on as a batch of one matrix, the shape that gemm takes.
inline Tensor matrix(const Tensor& buffer, std::int64_t at, std::int64_t rows,
                     std::int64_t columns) {
  return buffer.window(at, {1, rows, columns});
}

/// Replaces the rows of x by an orthonormal basis whose first k rows span what x's first k did, by
/// modified Gram-Schmidt. A row that is zero, or that f32 can't tell from a sum of those before it,
/// spans nothing: it is drawn anew by `key`, so that there are always R rows. Ranks that begin with
/// the same bits end with the same, if their processors compute alike.
/// shapes: x (R,N), f32, finite, R <= N
void orthonormalize(const Tensor& x, RandomKey key);

/// Sums one stage's gradients on one rank. A use is first_factors(), the first sum,
/// second_factors(), the second sum if there is one, finish(). Sums are made in place, and give all
/// ranks of a group the same bits; then all have the same factors and gradients, if their
/// processors compute alike. A rank adds what its factors leave out of its gradient to its next one
/// (error feedback). Phases may run on any thread, one at a time.
/// throws: Error that names the parameter whose gradient is not finite
class LowRank {
 public:
  /// Fills Q with normal numbers from sequences of `seed` and the parameters' names.
  LowRank(const CodecSpec& spec, const ParameterList& parameters, std::uint64_t seed,
          const DevicePtr& device);
  virtual ~LowRank() = default;

  /// Reads this rank's gradient (N), f32, for the update to `version`; returns the first buffer.
  virtual Tensor first_factors(const Tensor& gradient, int version) = 0;
  /// Returns the second buffer; undefined if nothing more is to be summed.
  virtual Tensor second_factors() = 0;
  /// Writes the approximate sum of all ranks' gradients to `gradient` (N), and frees the buffers.
  void finish(const Tensor& gradient);

  /// The most elements of buffers that a use has at once.
  virtual std::int64_t most_buffered() const { return factoring_.first + factoring_.second; }

  const Factoring& parts() const { return factoring_; }
  /// The state between uses. Its tensors are the ones that are worked on, not copies.
  FactorState& state() { return state_; }

 protected:
  /// Makes `gradient` (N) of the sums of the buffers, for finish().
  virtual void write_sum(const Tensor& gradient) = 0;
  /// throws: Error that names the part, unless all of x is finite
  void check_finite(const FactoredPart& part, const Tensor& x, const char* what) const;

  Tensor buffer(std::int64_t count) const {
    return empty({count}, DType::f32, device_, Category::communication);
  }
  Tensor residual(const FactoredPart& part) const {
    return matrix(state_.residual, part.offset, part.rows, part.columns);
  }
  // Factors are stored in rows, in which products with thin matrices are fastest.
  /// P^T, in the first buffer.
  Tensor p(const FactoredPart& part) const {
    return matrix(first_, part.first, factoring_.rank, part.rows);
  }
  /// Q^T, in the state.
  Tensor q(const FactoredPart& part) const {
    return matrix(state_.factors, part.second, factoring_.rank, part.columns);
  }
  void orthonormalize_factor(const FactoredPart& part, const Tensor& x) const {
    orthonormalize(x.window(0, {x.size(1), x.size(2)}), key(part));
  }

  /// Makes the first buffer, of `count` elements.
  void begin(int version, std::int64_t count);
  /// Fills the part's place in the first buffer: adds the gradient to the residual, which becomes
  /// M, and computes P = M Q. A part that is not factored sends all of M, and leaves nothing out.
  void project(const FactoredPart& part, const Tensor& gradient) const;
  /// residual -= P Q^T
  void subtract(const FactoredPart& part, const Tensor& p, const Tensor& q) const;
  /// gradient = P Q^T
  void expand(const FactoredPart& part, const Tensor& gradient) const;

  const CodecSpec spec_;
  Factoring factoring_;
  FactorState state_;
  Tensor first_, second_;  // during a use
  int version_ = 0;        // the version that the use makes

 private:
  /// The part's place in the first buffer.
  Tensor sent(const FactoredPart& part) const {
    return part.is_factored() ? p(part) : first_.window(part.first, {part.count});
  }
  RandomKey key(const FactoredPart& part) const { return {seed_, text("factors of ", part.name)}; }

  std::uint64_t seed_;
  DevicePtr device_;
};

/// One member's sum of a stage: two collectives, and the phases of a LowRank around them.
class FactoredRun : public GroupRun {
 public:
  /// Begins the sum of a buffer over the group, in place.
  using Sum = std::function<std::shared_ptr<GroupRun>(const Tensor& buffer)>;

  /// `low_rank` must outlive it; `gradient` (N) becomes the approximate sum that makes `version`.
  FactoredRun(LowRank& low_rank, Tensor gradient, int version, Sum sum)
      : low_rank_(low_rank),
        gradient_(std::move(gradient)),
        version_(version),
        sum_(std::move(sum)) {}

  bool advance(Transport& transport) override;
  std::int64_t bytes_sent() const override { return first_->bytes_sent() + second_->bytes_sent(); }

 private:
  LowRank& low_rank_;
  Tensor gradient_;
  int version_;
  Sum sum_;
  std::shared_ptr<GroupRun> first_, second_;
};

/// The kind of a codec that makes factors: NAME:RANK, and more numbers.
CodecKind low_rank_kind(const char* name, std::vector<CodecNumber> more = {});

/// throws: Error unless the codec is lowrank or pca
std::unique_ptr<LowRank> make_low_rank(const CodecSpec& spec, const ParameterList& parameters,
                                       std::uint64_t seed, const DevicePtr& device);

}  // namespace plangrad::parallel
