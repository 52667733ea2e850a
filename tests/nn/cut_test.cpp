// Cuts: shapes that are known beforehand are those that come out; what two stages share has a
// buffer of its own; neither changes a bit of what the whole model computes.
#include "nn/models/model.h"

#include <numeric>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "nn/models/gpt.h"
#include "nn/models/resnet.h"
#include "nn/optimizers/optimizer.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad::nn;
using namespace plangrad::tests;

namespace {

const GptConfig config{3, 2, 16, 8, 19, 0.2, true};

Tensor ids(int factor, const DevicePtr& device) {
  std::vector<std::int32_t> values(2 * 6);
  for (int i = 0; i < 12; ++i) values[i] = i * factor % 19;
  return integers(values, {2, 6}, device);
}

/// A stage with weights, gradients, and the shared ones' part of both.
struct Piece {
  Stage stage;
  Tensor weights, gradients, shared, shared_gradients;

  Piece(const Model& model, int first, int last, const ParameterList& common,
        const DevicePtr& device, DType dtype = DType::f64)
      : stage(model, first, last, common) {
    auto fresh = [&](const ParameterList& list, Tensor& values, Tensor& slopes) {
      values = empty({list.numel()}, dtype, device);
      slopes = zeros({list.numel()}, dtype, device);
      initialize(list, values, 5);
    };
    fresh(stage.parameters(), weights, gradients);
    if (reads_shared()) fresh(stage.shared_parameters(), shared, shared_gradients);
    auto sink = [own = add_to_flat(gradients), common = add_to_flat(shared_gradients)](
                    const Parameter& p, const Tensor& dx) { (p.shared ? common : own)(p, dx); };
    stage.bind(weights, sink, shared);
  }
  bool reads_shared() const { return stage.shared_parameters().size() > 0; }
};

/// What a model cut into stages gives, by parameter.
struct Outcome {
  double loss = 0, norm = 0;
  std::map<std::string, Numbers> weights, gradients;
};

void gather(const ParameterList& list, const Tensor& flat, std::map<std::string, Numbers>& into) {
  for (const Parameter& p : list) into[p.name] = to_host(flat.window(p.offset, p.shape));
}

/// Forward through all stages, backward through all stages; the shared gradients are added up.
Outcome run(const Model& model, const std::vector<int>& cuts, DType dtype = DType::f64) {
  DevicePtr device = cpu_device();
  Shared common = shared_parameters(model, cuts);
  std::vector<std::unique_ptr<Piece>> pieces;
  std::vector<Tensor> entries, outputs;
  Tensor x = ids(7, device), dx;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    pieces.push_back(
        std::make_unique<Piece>(model, cuts[s], cuts[s + 1], common.parameters, device, dtype));
    entries.push_back(s > 0 ? variable(x) : x);
    outputs.push_back(pieces[s]->stage.forward(entries[s], {true, 3, 11, false}));
    x = outputs[s];
  }
  Tensor loss = cross_entropy(x, ids(5, device));
  for (std::size_t s = pieces.size(); s-- > 0;) {
    backward(s + 1 == pieces.size() ? loss : outputs[s], dx);
    if (s > 0) dx = gradient(entries[s]);
  }

  Outcome outcome;
  outcome.loss = item(loss);
  ParameterList whole = whole_parameters(model);
  std::vector<double> squares(whole.size());
  auto add_squares = [&](const ParameterList& list, const Tensor& gradients) {
    std::vector<double> sums = sums_of_squares(list, gradients);
    std::vector<std::size_t> at = places(list, whole);
    for (std::size_t i = 0; i < at.size(); ++i) squares[at[i]] += sums[i];
  };
  Tensor sum = zeros({common.parameters.numel()}, dtype, device);
  for (const auto& piece : pieces) {
    gather(piece->stage.parameters(), piece->weights, outcome.weights);
    gather(piece->stage.parameters(), piece->gradients, outcome.gradients);
    add_squares(piece->stage.parameters(), piece->gradients);
    if (!piece->reads_shared()) continue;
    device->backend().accumulate(piece->shared_gradients, sum);
    gather(piece->stage.shared_parameters(), piece->shared, outcome.weights);
  }
  gather(common.parameters, sum, outcome.gradients);
  add_squares(common.parameters, sum);
  outcome.norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  return outcome;
}

void check_equal(const Outcome& cut, const Outcome& whole) {
  CHECK(cut.loss == whole.loss);
  CHECK(cut.weights == whole.weights);  // and so are the first values
  // The table's gradient from the head, then the embedding's: in this order in both.
  CHECK(cut.gradients == whole.gradients);
  CHECK(cut.norm == whole.norm);
}

/// The outputs of both forms of a cut model are as foretold.
void check_shapes(const Model& model, const Tensor& input) {
  int layers = static_cast<int>(model.size());
  for (int cut = 0; cut <= layers; ++cut) {
    INFO("cut before layer " << cut);
    Tensor x = input;
    for (auto [first, last] : {std::pair(0, cut), std::pair(cut, layers)}) {
      Shape expected = output_shape(model, first, last, x.shape());
      if (first == last) {
        CHECK(expected == x.shape());
        continue;
      }
      Stage stage(model, first, last);
      Tensor weights = zeros({stage.parameters().numel()}, DType::f32, input.device());
      initialize(stage.parameters(), weights, 1);
      stage.bind(weights);
      x = stage.forward(x, {});
      CHECK(x.shape() == expected);
    }
  }
}

}  // namespace

TEST_CASE("cut: shapes are foretold at every cut") {
  DevicePtr device = cpu_device();
  check_shapes(gpt(config), ids(7, device));
  check_shapes(cut_model(gpt(config), {1.5, 3.5}).model, ids(7, device));
  for (std::int64_t size : {7, 8})
    check_shapes(resnet18({.channels = 3, .size = 28, .classes = 5, .width = 2}),
                 zeros({2, 3, size, size + 3}, DType::f32, device));
  CHECK(output_shape(gpt({}), 0, 14, {8, 1024}) == Shape{8, 1024, 50257});

  Model model = gpt(config);
  CHECK_THROWS_WITH(output_shape(model, 2, 6, {1, 1}), Contains("layers [2,6) in a model with 5"));
  model[1].output = nullptr;
  CHECK_THROWS_WITH(output_shape(model, 0, 5, {1, 1}), Contains("layer h.0 does not declare"));
}

TEST_CASE("cut: a tied table is shared by the stages that read it, and apart from all else") {
  Model model = gpt(config);
  Shared none = shared_parameters(model, {0, 5});
  CHECK(none.parameters.size() == 0);
  CHECK(none.stages.empty());
  GptConfig untied = config;
  untied.tied = false;
  CHECK(shared_parameters(gpt(untied), {0, 2, 5}).stages.empty());

  Shared both = shared_parameters(model, {0, 2, 3, 5});
  CHECK(both.stages == std::vector<int>{0, 2});
  REQUIRE(both.parameters.size() == 1);
  CHECK(both.parameters.begin()->name == "wte.weight");
  CHECK(both.parameters.begin()->shared);
  CHECK(both.parameters.numel() == 19 * 16);

  Stage first(model, 0, 2, both.parameters), middle(model, 2, 3, both.parameters);
  CHECK(first.shared_parameters().numel() == 19 * 16);
  CHECK(middle.shared_parameters().size() == 0);
  std::int64_t next = 0;
  for (const Parameter& p : first.parameters()) {
    CHECK(p.name != "wte.weight");
    CHECK(p.offset == next);
    CHECK_FALSE(p.shared);
    next += p.shape.numel();
  }
  CHECK(first.parameters().numel() == next);
  CHECK(next == Stage(model, 0, 2).parameters().numel() - 19 * 16);

  CHECK_THROWS_WITH(shared_parameters(model, {0, 2}), Contains("begin with 0 and end with 5"));
  CHECK_THROWS_WITH(shared_parameters(model, {0, 3, 2, 5}), Contains("layers [3,2)"));
}

TEST_CASE("cut: shared parameters have the same offsets in every stage that reads one") {
  using List = ParameterList;
  auto layer = [](std::vector<std::string> names) {
    return LayerSpec{"layer", [names](List& list) -> std::unique_ptr<Layer> {
                       for (std::size_t i = 0; i < names.size(); ++i)
                         list.add(names[i], {names[i][0] - 'a' + 1}, Init::constant(0));
                       return nullptr;
                     }};
  };
  Model model = {layer({"a", "b", "c"}), layer({"d"}), layer({"c", "e"}), layer({"f", "b"})};
  Shared shared = shared_parameters(model, {0, 1, 2, 3, 4});
  CHECK(shared.stages == std::vector<int>{0, 2, 3});
  for (int s : shared.stages) {
    Stage stage(model, s, s + 1, shared.parameters);
    Numbers offsets;
    for (const Parameter& p : stage.shared_parameters())
      offsets.push_back(static_cast<double>(p.offset));
    CHECK(offsets == Numbers{0, 2});  // b, then c
    CHECK(stage.shared_parameters().numel() == 5);
  }
  CHECK(Stage(model, 1, 2, shared.parameters).shared_parameters().size() == 0);

  List other;
  other.add("c", {7}, Init::constant(0));
  CHECK_THROWS_WITH(Stage(model, 0, 1, other),
                    Contains("parameter c is (3) in this stage and (7)"));
}

TEST_CASE("cut: stages that share give the gradients of the whole, added up over both ends") {
  Model model = gpt(config);
  Outcome whole = run(model, {0, 5});
  CHECK(whole.gradients.size() == 3 * 12 + 4);
  for (const std::vector<int>& cuts :
       std::vector<std::vector<int>>{{0, 1, 5}, {0, 3, 5}, {0, 2, 4, 5}, {0, 1, 2, 3, 4, 5}}) {
    check_equal(run(model, cuts), whole);
  }
  for (const std::vector<double>& begins :
       std::vector<std::vector<double>>{{1.5}, {1.5, 3.5}, {1, 1.5, 2, 2.5}})
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const CutModel cut = cut_model(model, begins);
      check_equal(run(cut.model, cut.cuts, dtype), run(model, {0, 5}, dtype));
    }
  DevicePtr device = cpu_device();
  Piece piece(model, 0, 5, {}, device);
  backward(
      cross_entropy(piece.stage.forward(ids(7, device), {true, 3, 11, false}), ids(5, device)));
  CHECK(gradient_norm(piece.stage.parameters(), piece.gradients) == whole.norm);
}

TEST_CASE("cut: a stage begins at a layer or the second half of one") {
  const Model model = gpt(config);
  CHECK(cut_places(model) == std::vector<double>{0, 1, 1.5, 2, 2.5, 3, 3.5, 4});
  const CutModel cut = cut_model(model, {1.5, 3, 3.5});
  CHECK(cut.cuts == std::vector<int>{0, 2, 4, 5, 7});
  CHECK(cut.model.size() == 7);
  CHECK_THROWS_WITH(cut_model(model, {0.5}), Contains("at layer 0.5; layer 0 (embedding) has no"));
  CHECK_THROWS_WITH(cut_model(model, {1.25}), Contains("layer 1 (h.0) has two halves"));
  CHECK_THROWS_WITH(cut_model(model, {2, 5}), Contains("has 5 layers, the last is layer 4"));
}

TEST_CASE("cut: a stage without its buffers is refused") {
  Model model = gpt(config);
  DevicePtr device = cpu_device();
  Shared shared = shared_parameters(model, {0, 3, 5});
  Stage stage(model, 3, 5, shared.parameters);
  Tensor weights = zeros({stage.parameters().numel()}, DType::f32, device);
  CHECK_THROWS_WITH(stage.bind(weights), Contains("the stage has 304 shared parameters"));
  CHECK_THROWS_WITH(stage.bind(weights, {}, weights),
                    Contains("the stage has 304 shared parameters"));
  CHECK_THROWS_WITH(stage.bind({}, {}, weights),
                    Contains("parameters, the buffer of their values"));
  CHECK_THROWS_WITH(initialize(shared.parameters, weights, 1), Contains("304 parameters"));
  CHECK_THROWS_WITH(places(shared.parameters, stage.parameters()), Contains("wte.weight"));
}

TEST_CASE("cut: sums of squares are per parameter, and statistics do not count") {
  ParameterList list;
  list.add("weight", {2}, Init::constant(0));
  list.add("mean", {1}, Init::constant(0), ParameterKind::statistic);
  list.add("bias", {1}, Init::constant(0));
  Tensor gradients = doubles({1, 2, 3, 4}, {4}, cpu_device());
  CHECK(sums_of_squares(list, gradients) == Numbers{5, 0, 16});
  CHECK(gradient_norm(list, gradients) == std::sqrt(21.0));
}
