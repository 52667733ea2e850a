// Flags have the names and values that checkpoints save.
// Chapter 06.
#include "examples/programs/plan_row.h"

#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "nn/checkpoint/file.h"

namespace plangrad::examples {

using autograd::text;
using nlohmann::json;

std::string command_of(const std::string& program, const std::vector<json>& flags) {
  std::string command = program;
  for (const json& each : flags)
    for (const auto& [name, value] : each.items()) {
      if (value == false || value == 0) continue;
      command += ' ' + name;
      if (value != true) command += ' ' + parallel::text_of(value);
    }
  return command;
}

namespace {

/// Whether a search writes this flag.
bool is_written(const std::string& name) {
  static const std::set<std::string> others{"--layers", "--heads",    "--width", "--context",
                                            "--untied", "--batch",    "--dtype", "--prune",
                                            "--samo",   "--reduction"};
  const auto has_name = [&](const parallel::SpecField* field) {
    return field->flag_name() == name && !field->of_plans;
  };
  return others.contains(name) || std::ranges::any_of(parallel::spec_fields(), has_name);
}

std::vector<std::string> words_of(const json& flags) {
  std::vector<std::string> words;
  for (const auto& [name, value] : flags.items()) {
    PG_CHECK(is_written(name), name, " is no flag that a search writes");
    words.push_back(text(name, '=', parallel::text_of(value)));
  }
  return words;
}

}  // namespace

RowWords row_words(const std::filesystem::path& file, int row, const std::string& program) try {
  const json found = nn::read_json(file);
  const json &rows = found.at("best"), &trains = found.at("program");
  PG_CHECK(trains == program, "its plans are for ", trains.get<std::string>());
  PG_CHECK(row <= std::ssize(rows), "there is no row ", row, ", it has ", rows.size());
  return {words_of(found.at("shape")), words_of(rows.at(row - 1).at("flags"))};
} catch (const json::exception&) {
  throw autograd::Error(
      text("--plan-from ", file.string(), ": this is not what plan search --json ", "prints"));
} catch (const autograd::Error& error) {
  throw autograd::Error(text("--plan-from ", file.string(), ": ", error.what()));
}

}  // namespace plangrad::examples
