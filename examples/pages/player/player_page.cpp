// Assembles the page from its parts. Chapter 06.
#include "examples/pages/player/player_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "autograd/version.h"
#include "examples/pages/machine_texts.h"
#include "examples/pages/page_text.h"
#include "examples/pages/player/player_facts.h"
#include "examples/pages/player/player_parts.h"
#include "examples/pages/player/request.h"
#include "examples/pages/player/wasm/module.h"
#include "parallel/drawing/figure.h"
#include "parallel/plan/operations.h"
#include "parallel/planner/layer_costs.h"
#include "parallel/simulation/machine.h"

namespace plangrad::examples {
namespace {

/// An example of each operation: {text, words}.
nlohmann::json examples_of_operations() {
  nlohmann::json all = nlohmann::json::array();
  for (const Operation& row : operations()) {
    const auto [stage, micro, version] = row.fields;
    const int peer = row.mark == 0 ? -1 : row.by_group() ? 0 : 3;
    const Instruction x{row.op, stage ? 2 : -1, micro ? 5 : -1, version ? 1 : -1, peer, row.what};
    all.push_back({{"text", print(x)}, {"words", describe(x)}});
  }
  return all;
}

/// The machines that a reader chooses among: {name, memory}.
nlohmann::json list_of_machines() {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [name, text] : known_machines())
    all.push_back({{"name", name}, {"memory", parse_machine(text).memory}});
  return all;
}

std::string script(const std::string& text) { return "<script>\n" + text + "</script>\n"; }

}  // namespace

std::vector<ShownModel> shown_models() {
  std::vector<ShownModel> all;
  for (const std::string& name : planned_models()) {
    const PlannedModel model = planned_model(name);
    if (model.program != "train_gpt") continue;
    const int blocks = static_cast<int>(model.layers.size()) - 2, head = blocks + 1;
    const auto layers = [&](int sequences) {  // each a stage; after the head, the table of words
      return model_costs(model, blocks + 2, {.dtype = DType::bf16, .examples = sequences}).stages;
    };
    const std::vector<StageCosts> one = layers(1), two = layers(2);
    const double output = one[1].bytes.output;
    const auto elements = [&](int layer) { return 1.0 * one[layer].bytes.elements; };
    const auto kept = [&](int layer) {  // without the loss, which is one for all sequences
      return 1.0 * (two[layer].bytes.kept - one[layer].bytes.kept);
    };
    all.push_back({name,
                   blocks,
                   {elements(0), elements(head + 1), elements(1), elements(head)},
                   {1.0 * size_of(DType::bf16), 1.0 * size_of(gradient_dtype(DType::bf16)),
                    1.0 * one[1].bytes.optimizer / one[1].bytes.elements},
                   {kept(0), kept(1) - output, kept(head) - output},
                   output});
  }
  return all;
}

std::string player_page(const std::vector<PlayerPlan>& plans, const std::string& command,
                        bool game) {
  PG_CHECK(!plans.empty(), "player: a page needs a plan to show");
  const nlohmann::json models = shown_models();
  std::string data;
  for (const PlayerPlan& plan : plans) {
    nlohmann::json asked = nlohmann::json::parse(plan.request);
    asked["models"] = models;
    data += fmt::format("{}{{\"request\":{},\"answer\":{},\"path\":{}}}", data.empty() ? "" : ",",
                        plan.request, answer(asked.dump()), plan.path);
  }
  nlohmann::json rest{{"schedules", list_of_schedules()},
                      {"fields", list_of_fields()},
                      {"operations", examples_of_operations()},
                      {"machines", list_of_machines()},
                      {"models", models},
                      {"sequences", shown_sequences}};
  if (game) rest["game"] = true;
  if (!command.empty()) rest["made"] = {{"command", command}, {"version", autograd::version()}};
  data = "{\"plans\":[" + data + "]," + rest.dump().substr(1);
  std::string page = page_head("plangrad: plan player", palette_css() + player_style,
                               " 'wasm-unsafe-eval'; worker-src blob:") +
                     "<body>\n<link rel=\"icon\" href=\"data:,\">\n" + player_body +
                     "<script type=\"application/json\" id=\"plans\">" + json_in_page(data) +
                     "</script>\n";
  page += "<script type=\"text/plain\" id=\"module\">" + std::string(player_module) + "</script>\n";
  page += script(timeline_script) + script(player_script);
  return page + "</body></html>\n";
}

}  // namespace plangrad::examples
