// Assembles the page from its parts. Chapter 06.
#include "examples/pages/player/player_page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "examples/pages/machine_texts.h"
#include "examples/pages/page_text.h"
#include "examples/pages/player/player_facts.h"
#include "examples/pages/player/player_parts.h"
#include "examples/pages/player/request.h"
#include "examples/pages/player/wasm/module.h"
#include "parallel/drawing/figure.h"
#include "parallel/plan/operations.h"
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

/// Names of the models whose bytes answers have.
nlohmann::json list_of_models() {
  nlohmann::json all = nlohmann::json::array();
  for (const ShownModel& model : shown_models()) all.push_back(model.name);
  return all;
}

std::string script(const std::string& text) { return "<script>\n" + text + "</script>\n"; }

}  // namespace

std::string player_page(const std::vector<PlayerPlan>& plans) {
  PG_CHECK(!plans.empty(), "player: a page needs a plan to show");
  std::string data = "{\"plans\":[";
  for (const PlayerPlan& plan : plans)
    data += fmt::format("{}{{\"request\":{},\"answer\":{},\"path\":{}}}",
                        &plan == plans.data() ? "" : ",", plan.request, plan.answer, plan.path);
  data +=
      "],\"schedules\":" + list_of_schedules().dump() + ",\"fields\":" + list_of_fields().dump() +
      ",\"operations\":" + examples_of_operations().dump() +
      ",\"machines\":" + list_of_machines().dump() + ",\"models\":" + list_of_models().dump() + "}";
  std::string page = page_head("plangrad: plan player", palette_css() + player_style,
                               " 'wasm-unsafe-eval'; worker-src blob:") +
                     "<body>\n<link rel=\"icon\" href=\"data:,\">\n" + player_body +
                     "<script type=\"application/json\" id=\"plans\">" + json_in_page(data) +
                     "</script>\n";
  page += "<script type=\"text/plain\" id=\"module\">" + std::string(player_module) + "</script>\n";
  page += script(timeline_script) + script(player_script);
  return page + "</body></html>\n";
}

std::string plan_page(const std::string& request) {
  return player_page({{request, answer(request)}});
}

}  // namespace plangrad::examples
