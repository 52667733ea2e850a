// What a run's page tells: numbers that agree with summary.json, pages of many ranks, pages of a
// run that goes on, and the first late cell.
#include "examples/pages/run_page.h"

#include <sched.h>

#include "examples/pages/report_cells.h"
#include "examples/pages/report_memory.h"
#include "examples/pages/report_page.h"
#include "examples/pages/report_window.h"
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/metric_lines.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad;
using namespace plangrad::examples;
using namespace plangrad::tests;
using namespace plangrad::parallel;
using nlohmann::json;

namespace {

ModelCosts gpt_of(int layers, int stages) {
  const Model model = gpt(
      {.layers = layers, .heads = 2, .width = 8, .context = 8, .vocabulary = 11, .tied = false});
  return model_costs({.name = "", .layers = model, .input = {8}, .target = {8}, .vocabulary = 11},
                     stages, {});
}

Costs costs_of(const Plan& plan) {
  Costs costs;
  costs.backward = {2};
  costs.step = {0.5};
  costs.latency = 0.01;
  costs.bandwidth = 1e5;
  costs.activation_bytes = {1000};
  costs.weight_bytes.assign(plan.stage_count(), 4000);
  return costs;
}

/// Recorded updates that ran exactly as simulated, with memory that changes at each record.
RecordedUpdates recorded_of(const Plan& plan) {
  RecordedUpdates recorded{"", plan, simulate(verify(plan), costs_of(plan)), {}};
  std::erase_if(recorded.timeline.records, [](const Record& x) { return drops(x.instruction); });
  for (const Record& record : recorded.timeline.records)
    for (const char* category : {"weights", "activations"})
      recorded.memory.push_back({record.rank, record.start, category,
                                 1000 + record.instruction.stage + 7 * record.instruction.micro});
  return recorded;
}

json page_of(const RecordedUpdates& recorded, const ModelCosts& model) {
  return window_json(recorded, facts_of(recorded, {nullptr, {}}), model);
}

/// The data that a page draws.
json data_in_page(const std::filesystem::path& path) {
  const std::string page = nn::read_file(path), begin = "id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

/// The observers of a small session, with a page.
std::function<Observers()> with_page(double report_every = 30, int evaluate_every = 250) {
  return [=] {
    Observers all = observers_of({.evaluate_every = evaluate_every})();
    RunLog& log = dynamic_cast<RunLog&>(*all.front());
    all.back() =
        std::make_unique<RunPage>(log, RecordSettings{.report_every = report_every}, "a run");
    return all;
  };
}

}  // namespace

TEST_CASE("a page of 120 ranks and three updates has less than a megabyte", "[report]") {
  const Plan plan = make_plan("1f1b", {.stages = 15, .width = 8, .microbatches = 30, .steps = 3});
  REQUIRE(plan.ranks() == 120);
  const ModelCosts model = gpt_of(13, 15);
  const json page = page_of(recorded_of(plan), model);
  MetricsTable metrics;
  for (int step = 1; step <= 20000; ++step)
    metrics.add({{"step", step},
                 {"loss", 1.2345678 / step},
                 {"learning_rate", 1e-3 / step},
                 {"gradient_norm", 0.1234567 * step},
                 {"seconds", 0.0123456 + step * 1e-8},
                 {"tokens_per_second", 12345.67 + step},
                 {"bytes_sent", 1234567 + step}});
  const json data{{"windows", {page, page}}, {"metrics", metrics.columns(800)}};
  CHECK(run_page("120 ranks", data.dump()).size() < 1'000'000);

  // Rows of equal replicas are one, and no rank is left out of the bars.
  CHECK(page["cells"]["rows"].size() == 15);
  CHECK(page["cells"]["rows"][0]["same"].size() == 8);
  CHECK(page["bars"]["measured"].size() == 120);
  CHECK(page["memory"]["peaks"].size() == 120);
  CHECK(page["memory"]["lines"].size() == 15);
}

TEST_CASE("of very many cells the page has those of one update", "[report]") {
  const Plan plan = make_plan("1f1b", {.stages = 16, .microbatches = 200, .steps = 3});
  const ModelCosts model = gpt_of(14, 16);
  const json cells = page_of(recorded_of(plan), model)["cells"];
  CHECK(cells["left_out"] == "update 2 alone is shown");
  const std::string row = cells["rows"][3]["cells"];
  CHECK_THAT(row, Contains("3F300v") && !Contains("3F10v") && !Contains("3F590v"));
  CHECK(cells.dump().size() < 400'000);
}

TEST_CASE("a report's parts, shares and peaks are those of summary.json", "[report]") {
  RunFolder folder;
  run_sessions(small_training(2), folder, 2, [](int, SessionSettings& settings) {
    settings.steps = 6;
    settings.observers = with_page();
    settings.plans = std::make_shared<WatchedPlans>("1f1b");
  });
  const json summary = json::parse(nn::read_file(folder / "summary.json"));
  const json report = data_in_page(folder / "report.html");
  REQUIRE(report["windows"].size() == 1);
  const json& shown = report["windows"][0];
  CHECK(summary["recorded_updates"] == json{shown["first"], shown["last"]});
  for (const char* version : {"measured", "simulated"}) {
    const json& time = summary["breakdown"][version];
    CHECK(shown["bubble"][version].get<double>() ==
          Approx(summary["bubble"][version].get<double>()).epsilon(1e-3));
    for (int rank = 0; rank < 2; ++rank) {
      double all = 0, busy = 0;
      const json bars = shown["bars"][version][rank];
      for (int part = 0; part < 8; ++part) all += bars[part].get<double>();
      for (int part = 0; part < 4; ++part) busy += bars[part].get<double>();
      CHECK(all == Approx(time["makespan"].get<double>()).epsilon(1e-2));
      const json& parts = time["ranks"][rank];
      CHECK(busy ==
            Approx(parts["compute"].get<double>() + parts["update"].get<double>()).epsilon(1e-2));
      CHECK(parts["forward"].get<double>() + parts["backward"].get<double>() ==
            Approx(parts["compute"].get<double>()));
      CHECK(parts["other"] <= parts["waiting"]);
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    double peak = 0;
    for (const json& bytes : shown["memory"]["peaks"][rank]) peak += bytes.get<double>();
    CHECK(peak > 0);
    const auto total = summary["peak_bytes"][rank]["total"].get<double>();
    CHECK(peak <= total);
    CHECK(peak > 0.9 * total);  // it is training's, not the validation's
    CHECK(peak == Approx(shown["levels"][0]["peaks"][rank].get<double>()).epsilon(0.03));
    CHECK(summary["peak_bytes_validation"][rank]["total"] > 0);
  }
  CHECK(shown["levels"][1].is_null());  // no rank has a replica
  CHECK(shown["kinds"].size() == shown["memory"]["categories"].size());
  CHECK(shown["kinds"][1] == "gradient sums");
  CHECK(report["summary"]["loss"] == summary["loss"]);
  CHECK(summary["events"].back()["what"] == "checkpoint");
  CHECK(report["metrics"]["step"].size() == 6);
}

TEST_CASE("a page is there while the run goes on, and changes none of its bits", "[report]") {
  RunFolder watched, plain;
  int seen = 0;
  auto train = [&](const RunFolder& folder, double every) {
    run_sessions(small_training(2), folder, 2, [&](int rank, SessionSettings& settings) {
      settings.steps = 12;
      settings.observers = with_page(every);
      settings.plans = std::make_shared<Plans>("2bw", Layout{.stages = 2, .microbatches = 2});
      if (rank == 0 && every == 0)
        settings.interrupted = [&] {
          if (!std::filesystem::exists(folder / "report.html")) return false;
          const json page = data_in_page(folder / "report.html");
          const json summary = json::parse(nn::read_file(folder / "summary.json"));
          if (seen == 0) std::ofstream(folder / "report.html", std::ios::app) << "mine";
          seen += page["summary"]["state"] == "running" && summary["state"] == "running";
          return false;
        };
    });
    std::vector<double> losses;
    for (const json& line : metrics_of(folder / "metrics.jsonl"))
      if (line.contains("loss")) losses.push_back(line["loss"]);
    return losses;
  };
  CHECK(train(watched, 0) == train(plain, 1e9));
  CHECK(seen > 0);
  CHECK_THAT(nn::read_file(watched / "report.html.before-1"), EndsWith("mine"));
  CHECK_THAT(data_in_page(watched / "report.html")["drains"].get<std::string>(), Contains("(end"));
  CHECK(json::parse(nn::read_file(watched / "summary.json"))["state"] == "finished");
}

TEST_CASE("a page says how often the pipeline drained, and why", "[report]") {
  RunFolder folder;
  run_sessions(small_training(2), folder, 2, [](int, SessionSettings& settings) {
    settings.steps = 30;
    settings.observers = with_page(30, 12);
    settings.plans = std::make_shared<Plans>("2bw", Layout{.stages = 2, .microbatches = 2});
  });
  CHECK(data_in_page(folder / "report.html")["drains"] ==
        "4 times (end, recording, 2 x validation)");
}

TEST_CASE("the first late cell is the one that took longer, not those that waited for it",
          "[report]") {
  const Plan plan = make_plan("1f1b", {.stages = 2, .microbatches = 4, .steps = 1});
  Costs slow = costs_of(plan);
  const Timeline planned = simulate(verify(plan), slow);
  const UpdateSpan span = span_of_update(plan, planned, 1);
  CHECK(span.begin == 0);
  CHECK(span.end == Approx(planned.makespan()));
  auto late_in = [&](const Timeline& measured) {
    const WaitGraph graph(plan, measured);
    return first_late(plan, graph, measured, span_of_update(plan, measured, 1), planned, span);
  };
  CHECK_FALSE(late_in(planned));

  slow.computation = [](const Instruction& x, int, int) {
    return x == backward(1, 1, 0) ? 5.0 : makes_version(x) ? 0.5 : goes_back(x) ? 2.0 : 1.0;
  };
  const auto late = late_in(simulate(verify(plan), slow));
  REQUIRE(late);
  CHECK(late->rank == 1);
  CHECK(words_of(late->computation) == "backward 1");
  CHECK(late->seconds == Approx(3));
  CHECK(late->why == "took 5 s where 2 s are simulated");
}

TEST_CASE("the peak of all ranks together: ranks in any order, one category", "[report]") {
  const std::vector<MemorySample> samples = {
      {0, 0, "activations", 100}, {0, 2, "activations", 300}, {0, 3, "activations", 0},
      {0, 2, "weights", 7000},    {1, 1, "activations", 50},  {1, 2.5, "activations", 10},
      {1, 4, "activations", 0}};
  CHECK(peak_of_all_ranks(samples, "activations") == 350);
  CHECK(peak_of_all_ranks(samples, "gradients") == 0);
}

TEST_CASE("the memory at each level is that of what ranks hold", "[report]") {
  const Plan plan = make_plan("data", {.stages = 1, .width = 4, .microbatches = 1});
  const ModelCosts model = gpt_of(2, 1);
  const double n = static_cast<double>(model.stages[0].bytes.elements);
  // Bytes of an element when a backward ends: the sum is whole, and so are gathered weights.
  const double bytes[4][3] = {{4, 4, 8}, {4, 4, 2}, {4, 4, 2}, {5, 4, 2}};
  const json all = levels_json(recorded_of(plan), model, {});
  for (int level = 0; level <= 3; ++level) {
    const json& held = all[level]["fullest"]["bytes"];
    CHECK(held["weights"].get<double>() == Approx(bytes[level][0] * n));
    CHECK(held["gradient sums"].get<double>() == Approx(bytes[level][1] * n));
    CHECK(held["optimizer"].get<double>() == Approx(bytes[level][2] * n));
  }
}

TEST_CASE("encoded activations and sums are compared with f32", "[report]") {
  const Plan plain = make_plan("1f1b", {.stages = 2, .width = 2, .microbatches = 2});
  Plan coded = plain;
  coded.channel = parse_codec("quantize:8:64");
  const ModelCosts model = gpt_of(2, 2);
  const Instruction sent = parse_instruction("0a0>1");
  const std::int64_t bytes = ChannelCodec(coded.channel, {}).encoded_bytes(sent, 640, DType::f32);
  CHECK(bytes < 4 * 640);
  CHECK(bytes_in_f32({.instruction = sent, .bytes = bytes}, coded, model) ==
        Approx(4 * 640).epsilon(0.02));  // the same bytes can hold a few values fewer
  CHECK(bytes_in_f32({.instruction = sent, .bytes = 4 * 640}, plain, model) == 4 * 640);
  const Instruction sum = parse_instruction("0Rv1@1");  // of two ranks: each sends all of it once
  CHECK(bytes_in_f32({.instruction = sum, .bytes = 1}, plain, model) ==
        Approx(4 * model.stages[0].bytes.elements));
}

TEST_CASE("a long run's columns are means, and its histogram counts each update", "[report]") {
  MetricsTable table;
  for (int step = 1; step <= 1001; ++step)
    table.add({{"step", step}, {"loss", step}, {"seconds", step == 500 ? 9.0 : 0.5}});
  table.add({{"step", 1001}, {"validation_loss", 2.5}});
  table.add({{"step", 1001}, {"bits", {{"layer", 4}}}});
  const json columns = table.columns(100);
  CHECK(columns["updates_per_point"] == 11);
  REQUIRE(columns["loss"].size() == 91);
  CHECK(columns["loss"][0] == 6);
  CHECK(columns["loss_low"][0] == 1);
  CHECK(columns["loss_high"][0] == 11);
  int updates = 0;
  for (int count : columns["histogram"]["counts"]) updates += count;
  CHECK(updates == 1001);
  CHECK(columns["histogram"]["high"] == 9);
  CHECK(columns["histogram"]["median"] == 0.5);
  CHECK(columns["validation"].size() == 1);
  CHECK(columns["events"][0]["what"] == "bits");
  CHECK(MetricsTable().columns(100)["histogram"].is_null());
}

TEST_CASE("lists of a long run have its first and its last entries", "[report]") {
  MetricsTable table;
  for (int step = 1; step <= 5000; ++step) {
    table.add({{"step", step}, {"validation_loss", 1}});
    table.add({{"step", step}, {"drained", "save"}, {"bits", {{"layer", 4}}}});
    table.add({{"step", step}, {"loss", 1}, {text("key ", step), 1}});
  }
  json wide{{"step", 1}, {"loss", 2}, {"seconds", 3}};
  for (int i = 0; i < 200; ++i) wide[text("a", i)] = i;
  MetricsTable of_wide;
  of_wide.add(wide);
  for (const char* key : {"step", "loss", "seconds"}) CHECK(of_wide.columns(1).contains(key));
  CHECK(of_wide.updates() == 1);
  const json columns = table.columns(300);
  for (const auto& [list, size] :
       {std::pair("validation", 300u), {"bits", 40u}, {"events", 300u}}) {
    const auto step = [&](unsigned i) { return columns[list][i]["step"].get<unsigned>(); };
    REQUIRE(columns[list].size() == size);
    CHECK(step(size / 3 - 1) == size / 3);
    CHECK(step(size / 3) == 5000 - (size - size / 3) + 1);
    CHECK(step(size - 1) == 5000);
  }
  CHECK_FALSE(columns.contains("key 5000"));
}

TEST_CASE("columns have no value where a line has one of another kind", "[report]") {
  MetricsTable table;
  table.add({{"step", 1}, {"loss", "high"}, {"seconds", nullptr}});
  table.add({{"step", 2}, {"loss", 3}, {"seconds", -1}});
  table.add({{"loss", 4}});  // of no update
  for (const char* kind : {"pruning", "elastic", "drained"}) table.add({{"step", 2}, {kind, 5}});
  table.add({{"step", 2}, {"pruning", {{"pruned", true}, {"kept", "few"}}}});
  const json columns = table.columns(100);
  CHECK(std::isnan(columns["loss"][0].get<double>()));
  CHECK(columns["loss"][1] == 3);
  CHECK(columns["loss"].size() == 2);
  CHECK(columns["histogram"].is_null());  // no update has a time
  REQUIRE(columns["events"].size() == 1);
  CHECK(columns["events"][0]["text"] == "pruned to \"few\" of null elements");
}

TEST_CASE("a page has the bytes of each rank, and says which updates the memory is of",
          "[report]") {
  RunFolder folder;
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);  // threads inherit it
  run_sessions(small_training(1), folder, 2,
               [&](int, SessionSettings& settings) { settings.observers = with_page(); });
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  const json summary = json::parse(nn::read_file(folder / "summary.json"));
  const double all = summary["bytes_sent"]["reductions"];
  const json report = data_in_page(folder / "report.html");
  CHECK(report["bytes_sent"]["reductions"] == std::vector<double>{all / 2, all / 2});
  REQUIRE(report["windows"].size() == 1);
  CHECK(report["windows"][0]["first"] == 2);
  CHECK(report["windows"][0]["last"] == 2);
  CHECK(report["about_times"] == true);
  CHECK(report["windows"][0]["bars"]["own_cores"].size() == 2);
  CHECK(report["title"] == std::filesystem::path(folder.path).filename().string() + ": a run");
}

TEST_CASE("a page says what is pretended, in words", "[report]") {
  const json summary{{"forward", {0.5, 0.25}}, {"computations", 800}, {"late", 12},
                     {"latency", 0.001},       {"bandwidth", 1e6},    {"ranks_per_card", 2}};
  using Facts = std::vector<std::pair<std::string, std::string>>;
  CHECK(pretended_facts(summary) ==
        Facts{{"pretended devices", "forward 0.5; 0.25 s"},
              {"pretended links", "0.001 s, 1000000 bytes/s, a card for 2 ranks"},
              {"not as pretended",
               "12 of 800 computations took longer than pretended; the times are not those of the "
               "devices"}});
}
