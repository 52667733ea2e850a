// Writes random requests to the plan player with the answers that it gives here: lines by turns, as
// JSON. Not here: the comparison with the module's answers (player_alike.js).
//   player_requests COUNT PLAN... > FILE   PLAN: good plans, to make others of
#include <iostream>
#include <nlohmann/json.hpp>

#include "examples/pages/player/player_facts.h"
#include "examples/pages/player/request.h"
#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"
#include "tests/parallel/support/mutator.h"

namespace {

using namespace plangrad::examples;
using namespace plangrad::parallel;
using namespace plangrad::tests;
using Json = nlohmann::json;

/// Random requests, which are the same on every machine.
class Requests {
 public:
  explicit Requests(const std::vector<std::string>& files) {
    for (const std::string& file : files) good_.push_back(parse(plangrad::nn::read_file(file)));
  }

  Json next() {
    Json request = draw(5) > 0 ? Json{{"plan", plan_text()}} : schedule();
    if (draw(3) > 0) request["costs"] = costs();
    if (draw(3) == 0) request["models"] = {models_[draw(static_cast<int>(models_.size()))]};
    if (draw(6) == 0) request["slow_rank"] = draw(4), request["slow_factor"] = 0.25 * (1 + draw(9));
    return request;
  }

 private:
  int draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  /// A good plan, one with a fault or two, or one whose text is damaged.
  std::string plan_text() {
    Plan plan = good_[draw(static_cast<int>(good_.size()))];
    const int kind = draw(6);
    for (int faults = kind == 0 ? 0 : kind == 1 ? 2 : 1; faults > 0; --faults)
      plan = Mutator(plan, static_cast<unsigned>(random_()))
                 .mutate(static_cast<Mutation>(draw(static_cast<int>(fault_names.size()))));
    std::string text = print(plan);
    if (kind == 2) text[draw(static_cast<int>(text.size()))] = "0 v>|F\n9"[draw(8)];
    return text;
  }

  Json schedule() {
    const auto& all = schedules();
    Json request{{"schedule", all[draw(static_cast<int>(all.size()))]->name},
                 {"stages", 1 + draw(6)},
                 {"steps", 1 + draw(3)}};
    if (draw(3) > 0) request["microbatches"] = 1 + draw(8);
    for (const char* flag : {"clip", "recompute", "tied", "endless"})
      if (draw(8) == 0) request[flag] = true;
    if (draw(4) == 0) request["zero"] = draw(4);
    if (draw(6) == 0) request["data_parallel"] = 1 + draw(3);
    if (draw(8) == 0) request["codec"] = draw(2) > 0 ? "quantize:4" : "topk:0.05";
    return request;
  }

  Json costs() {
    const double forward = 0.1 * (1 + draw(20));
    Json costs{{"forward", {forward}}, {"backward", {forward * (1 + 0.3 * draw(5))}}};
    if (draw(2) > 0) costs["latency"] = 0.01 * draw(30);
    if (draw(2) > 0) {
      costs["activation_bytes"] = {1000 * (1 + draw(50))};
      costs["weight_bytes"] = {4096 * (1 + draw(50))};
      costs["bandwidth"] = 3000.0 * (1 + draw(90));
    }
    return costs;
  }

  std::vector<Plan> good_;
  const std::vector<ShownModel> models_ = shown_models();
  std::mt19937 random_{18};
};

}  // namespace

int main(int count, char** words) {
  Requests requests(std::vector<std::string>(words + 2, words + count));
  for (int left = std::stoi(words[1]); left > 0; --left) {
    const std::string request = requests.next().dump();
    std::cout << request << '\n' << answer(request) << '\n';
  }
}
