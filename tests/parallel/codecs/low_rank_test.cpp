// PowerSGD: against a plain version of it, and by what its paper promises.
// Not here: streaming PCA (streaming_pca_test.cpp).
#include "parallel/codecs/low_rank.h"

#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/parallel/support/factor_world.h"

using namespace plangrad::tests;

namespace {

/// A matrix, a bias, a kernel of four dimensions and a small matrix.
ParameterList mixed() {
  return parameter_list(
      {{"weight", {48, 40}}, {"bias", {40}}, {"kernel", {32, 8, 3, 3}}, {"small", {20, 20}}});
}

/// One parameter `weight` of 48 x 40.
ParameterList one_matrix() { return parameter_list({{"weight", {48, 40}}}); }

/// Of the given rank, with columns in one space for all `part`s.
Tensor thin_product(int rank, int part, double scale) {
  Numbers u = to_host(random_gradient(48 * rank, 1));
  Numbers v = to_host(random_gradient(rank * 40, 100 + part, cpu_device(), scale));
  Numbers product = (Matrix(48, rank, u) * Matrix(rank, 40, v)).values;
  return floats({product.begin(), product.end()}, {48 * 40}, cpu_device());
}

}  // namespace

TEST_CASE("low rank: which parameters are factored", "[low_rank]") {
  ParameterList list = mixed();
  list.add("thin", {1024, 4}, Init::constant(0));  // (1024 + 4) 4 > 4096
  list.add("vector", {5000}, Init::constant(0));
  list.add("seen", {64, 64}, Init::constant(0), ParameterKind::statistic);
  Factoring parts = factoring(list, 4);
  std::vector<std::string> factored;
  for (const FactoredPart& part : parts.parts)
    if (part.is_factored()) factored.push_back(part.name);
  CHECK(factored == std::vector<std::string>{"weight", "kernel"});
  CHECK(parts.parts[2].rows == 32);
  CHECK(parts.parts[2].columns == 72);
  std::int64_t raw = 40 + 400 + 4096 + 5000 + 4096;
  CHECK(parts.first == 4 * (48 + 32) + raw);
  CHECK(parts.second == 4 * (40 + 72));
  CHECK(parts.count == list.numel());
  CHECK(factoring(mixed(), 21).second == 21 * (40 + 72));
  CHECK(factoring(mixed(), 22).second == 22 * 72);  // (48 + 40) 22 > 48 * 40
  CHECK(factoring(mixed(), 23).second == 0);
  CHECK_THROWS_WITH(factoring(list, 0), Contains("expected a rank of 1 or more"));
}

TEST_CASE("low rank: buffers have the elements of the formula", "[low_rank]") {
  ParameterList list = mixed();
  for (int rank : {1, 4, 23}) {
    FactorWorld world(2, low_rank_spec(rank), list);
    Factoring counts = factoring(list, rank);
    for (int use = 0; use < 2; ++use) {
      world.use({random_gradient(list.numel(), 1), random_gradient(list.numel(), 2)});
      CHECK(world.sent.first == counts.first);
      CHECK(world.sent.second == counts.second);
    }
    std::int64_t thin = rank < 23 ? rank * (48 + 40 + 32 + 72) : 48 * 40 + 32 * 72;
    CHECK(counts.first + counts.second == thin + 40 + 400);
  }
}

TEST_CASE("low rank: rows become orthonormal, whatever they are", "[low_rank]") {
  const int n = 50, r = 5;
  Numbers x = to_host(random_gradient(r * n, 3));
  std::vector<float> rows(x.begin(), x.end());
  for (int i = 0; i < n; ++i) {
    rows[n + i] = 0;
    rows[2 * n + i] = 3 * rows[i];                                  // says nothing new
    rows[3 * n + i] = 1e20f * (rows[i] + 1e-4f * rows[3 * n + i]);  // hardly anything
    rows[4 * n + i] *= 1e-42f;                                      // denormal
  }
  for (float scale : {0.0f, 1.0f}) {
    std::vector<float> values = rows;
    for (float& value : values) value *= scale;
    Tensor made = floats(values, {r, n}, cpu_device());
    orthonormalize(made, RandomKey(1, "rows"));
    Matrix q(r, n, to_host(made)), product = q * transposed(q);
    for (int i = 0; i < r; ++i)
      for (int j = 0; j < r; ++j) CHECK(std::abs(product(i, j) - (i == j)) < 1e-6);
    for (int i = 0; i < n && scale == 1; ++i)  // the first keeps its direction
      CHECK(std::abs(q(0, i) - x[i] * q(0, 0) / x[0]) < 1e-6);
  }
}

TEST_CASE("low rank: matrices with common columns are summed to rounding", "[low_rank]") {
  for (int count : {1, 2, 5})
    for (double scale : {1e-30, 1.0, 1e25}) {
      FactorWorld world(count, low_rank_spec(3), one_matrix());
      std::vector<Tensor> gradients;
      for (int r = 0; r < count; ++r) gradients.push_back(thin_product(3, r, scale));
      Numbers sum = sum_of(gradients), got = to_host(world.use(gradients)[0]);
      CHECK(distance(got, sum) <= 1e-5 * norm(sum));
      CHECK(norm(sum) > scale);
    }
}

TEST_CASE("low rank: does what a plain version does", "[low_rank]") {
  const int count = 3, rank = 4;
  FactorWorld world(count, low_rank_spec(rank), one_matrix());
  Matrix q = transposed(Matrix(rank, 40, to_host(world.ranks[0]->state().factors)));
  std::vector<Matrix> errors(count, Matrix(48, 40));
  for (int step = 0; step < 6; ++step) {
    std::vector<Tensor> gradients;
    Matrix p(48, rank), next(40, rank);
    for (int r = 0; r < count; ++r) {
      gradients.push_back(random_gradient(48 * 40, 10 * step + r));
      Numbers gradient = to_host(gradients.back());
      for (std::size_t i = 0; i < gradient.size(); ++i) errors[r].values[i] += gradient[i];
      Matrix mine = errors[r] * q;
      for (std::size_t i = 0; i < mine.values.size(); ++i) p.values[i] += mine.values[i];
    }
    p = orthonormal(p);
    for (Matrix& m : errors) {
      Matrix mine = transposed(m) * p, got = p * transposed(mine);
      for (std::size_t i = 0; i < mine.values.size(); ++i) next.values[i] += mine.values[i];
      for (std::size_t i = 0; i < got.values.size(); ++i) m.values[i] -= got.values[i];
    }
    q = next;
    Matrix expected = p * transposed(q);
    std::vector<Tensor> got = world.use(gradients);
    for (int r = 0; r < count; ++r) {
      CHECK(distance(to_host(got[r]), expected.values) <= 1e-4 * norm(expected.values));
      Numbers residual = to_host(world.ranks[r]->state().residual);
      CHECK(distance(residual, errors[r].values) <= 1e-4 * norm(residual));
    }
  }
}

TEST_CASE("low rank: what another codec left out of an unfactored matrix arrives with the next sum",
          "[low_rank]") {
  const ParameterList list = mixed();
  const std::int64_t raw = 48 * 40 + 40;  // the first two; factors of rank 22 are larger
  for (const CodecSpec& spec : {low_rank_spec(22), pca_spec(22, 2)}) {
    INFO(print(spec));
    FactorWorld world(2, spec, list);
    std::vector<Tensor> gradients, all;
    for (int r = 0; r < 2; ++r) gradients.push_back(random_gradient(list.numel(), r));
    if (spec.name == "pca") world.use(gradients);  // which sums all as it is
    for (int r = 0; r < 2; ++r) {
      FactorState state = copy_of(world.ranks[r]->state());
      state.residual = random_gradient(list.numel(), 10 + r);
      restore(state, *world.ranks[r]);
      all.push_back(copy_of(gradients[r]));
      all[r].backend().accumulate(state.residual, all[r]);
    }
    const Numbers got = to_host(world.use(gradients)[1]), wanted = to_host(all[0]);
    const Numbers other = to_host(all[1]);
    for (std::int64_t i = 0; i < raw; ++i)
      REQUIRE(got[i] == static_cast<float>(wanted[i] + other[i]));
    for (auto& rank : world.ranks)
      CHECK(norm(to_host(rank->state().residual.window(0, {raw}))) == 0);
  }
}

TEST_CASE("low rank: what is left out arrives later", "[low_rank]") {
  const int count = 2;
  ParameterList list = mixed();
  FactorWorld world(count, low_rank_spec(2), list);
  Numbers wanted(list.numel()), got(list.numel());
  std::vector<double> left, ratio;
  for (int step = 1; step <= 400; ++step) {
    std::vector<Tensor> gradients;  // a mean of full rank, and noise
    for (int r = 0; r < count; ++r) {
      gradients.push_back(random_gradient(list.numel(), 1000 + r));
      Tensor noise = random_gradient(list.numel(), 2 * step + r);
      noise.backend().accumulate(noise, gradients.back());
    }
    Numbers sum = sum_of(gradients), applied = to_host(world.use(gradients)[0]);
    std::vector<Tensor> residuals;
    for (auto& rank : world.ranks) residuals.push_back(rank->state().residual);
    Numbers residual = sum_of(residuals), both(list.numel());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      wanted[i] += sum[i];
      got[i] += applied[i];
      both[i] = got[i] + residual[i];
    }
    CHECK(distance(both, wanted) <= 1e-5 * norm(wanted));
    if (step % 100 == 0)
      left.push_back(norm(residual)), ratio.push_back(norm(residual) / norm(wanted));
  }
  CHECK(left[3] < 1.2 * left[1]);  // bounded, so that means differ by residual / steps
  CHECK(ratio[3] < 0.7 * ratio[1]);
}

TEST_CASE("low rank: a warm start comes near the best factors", "[low_rank]") {
  Tensor fixed = random_gradient(48 * 40, 5);
  Matrix m(48, 40, to_host(fixed));
  const int rank = 4;
  double best = best_error(m, rank);
  FactorWorld world(1, low_rank_spec(rank), one_matrix());
  std::vector<double> errors;
  for (int step = 0; step < 60; ++step) {
    errors.push_back(distance(to_host(world.use({fixed})[0]), m.values));
    FactorState state = copy_of(world.ranks[0]->state());
    fixed.backend().fill(0, state.residual);  // each use sees the same matrix
    restore(state, *world.ranks[0]);
  }
  CHECK(errors[0] > 1.05 * best);
  for (std::size_t i = 1; i < errors.size(); ++i) CHECK(errors[i] <= errors[i - 1] * (1 + 1e-6));
  CHECK(errors.back() < 1.005 * best);
  CHECK(errors.back() >= best * (1 - 1e-6));
}

TEST_CASE("low rank: all ranks end with the same bits", "[low_rank]") {
  ParameterList list = mixed();
  for (const CodecSpec& spec : {low_rank_spec(3), pca_spec(3, 2)})
    for (int count : {2, 3, 4}) {
      FactorWorld world(count, spec, list);
      for (int step = 0; step < 5; ++step) {
        std::vector<Tensor> gradients;
        for (int r = 0; r < count; ++r)
          gradients.push_back(random_gradient(list.numel(), 10 * step + r));
        std::vector<Tensor> got = world.use(gradients);
        for (int r = 1; r < count; ++r) {
          CHECK(to_host(got[r]) == to_host(got[0]));
          CHECK(to_host(world.ranks[r]->state().factors) ==
                to_host(world.ranks[0]->state().factors));
        }
      }
    }
}

TEST_CASE("low rank: a state that was saved goes on bit for bit", "[low_rank]") {
  ParameterList list = mixed();
  for (const CodecSpec& spec : {low_rank_spec(3), pca_spec(3, 3)}) {
    FactorWorld world(2, spec, list), other(2, spec, list);
    auto gradients = [&](int step) {
      return std::vector<Tensor>{random_gradient(list.numel(), step),
                                 random_gradient(list.numel(), 50 + step)};
    };
    for (int step = 0; step < 4; ++step) world.use(gradients(step));
    for (int r = 0; r < 2; ++r) restore(world.ranks[r]->state(), *other.ranks[r]);
    for (int step = 4; step < 8; ++step)
      CHECK(to_host(other.use(gradients(step))[0]) == to_host(world.use(gradients(step))[0]));
  }
}

TEST_CASE("low rank: zeros and constants", "[low_rank]") {
  ParameterList list = mixed();
  for (const CodecSpec& spec : {low_rank_spec(4), pca_spec(4, 3)})
    for (float value : {0.0f, 0.5f, 1e-30f}) {
      FactorWorld world(2, spec, list);
      Tensor constant = full({list.numel()}, value, DType::f32, cpu_device());
      for (int step = 0; step < 3; ++step) {
        Numbers got = to_host(world.use({constant, constant})[1]);
        CHECK(distance(got, Numbers(got.size(), 2 * value)) <=
              1e-5 * value * std::sqrt(got.size()));
      }
      // Factors that knew of nothing take up what comes then.
      Tensor product = random_gradient(list.numel(), 4);
      Numbers sum = sum_of({product, product});
      double before = distance(to_host(world.use({product, product})[0]), sum);
      CHECK(before < 0.99 * norm(sum));
    }
}

TEST_CASE("low rank: NaN and infinity are reported by name", "[low_rank]") {
  ParameterList list = mixed();
  for (const CodecSpec& spec : {low_rank_spec(4), pca_spec(4, 1), pca_spec(4, 5)})
    for (const FactoredPart& part : factoring(list, 4).parts) {
      for (float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        FactorWorld world(2, spec, list);
        Tensor good = random_gradient(list.numel(), 1);
        world.use({good, good});
        Tensor spoilt = copy_of(good);
        spoilt.backend().fill(bad, spoilt.window(part.offset + part.count / 2, {1}));
        CHECK_THROWS_WITH(world.use({good, spoilt}),
                          Contains(text("the gradient of ", part.name, " is not finite")) &&
                              Contains("use a lower --learning-rate"));
      }
      // Each rank's are finite, their sum is not.
      FactorWorld world(4, spec, list);
      Tensor huge = zeros({list.numel()}, DType::f32, cpu_device());
      world.use({huge, huge, huge, huge});
      huge.backend().fill(2e38, huge.window(part.offset, {part.count / 100 + 1}));
      CHECK_THROWS_WITH(world.use({huge, huge, huge, huge}), Contains(text("of ", part.name, " ")));
    }
}

TEST_CASE("low rank: memory between uses", "[low_rank]") {
  ParameterList list = mixed();
  DevicePtr device = cpu_device();
  FactorWorld world(1, low_rank_spec(4), list, device);
  std::int64_t kept = 4 * (list.numel() + 4 * (40 + 72));
  CHECK(device->meter().live(Category::communication) == kept);
  world.use({random_gradient(list.numel(), 1, device)});
  CHECK(device->meter().live(Category::communication) == kept);
  CHECK_THROWS_WITH(make_low_rank({}, list, 1, device), Contains("expected the codec lowrank"));
}

TEST_CASE("low rank: computes on a device whose memory the host can't touch", "[low_rank]") {
  ParameterList list = mixed();
  for (const CodecSpec& spec : {low_rank_spec(4), pca_spec(4, 2)}) {
    DevicePtr guarded = guarded_device();
    FactorWorld there(2, spec, list, guarded), here(2, spec, list);
    for (int step = 0; step < 3; ++step)
      CHECK(to_host(there.use({random_gradient(list.numel(), step, guarded),
                               random_gradient(list.numel(), 9 + step, guarded)})[1]) ==
            to_host(here.use({random_gradient(list.numel(), step),
                              random_gradient(list.numel(), 9 + step)})[1]));
  }
}
