// The player's answers: they say what the verifier and the simulator say, and where.
#include "examples/pages/player/player_facts.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "examples/pages/plan_facts.h"
#include "examples/pages/player/columns.h"
#include "examples/pages/player/ideas.h"
#include "examples/pages/player/request.h"
#include "parallel/simulation/breakdown.h"
#include "tests/catch.h"

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

Json ask(const Json& request) { return Json::parse(answer(request.dump())); }

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (char digit : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<unsigned>(digits.find(digit));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return bytes;
}

template <class Type>
std::vector<double> typed(const std::string& bytes) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i + sizeof(Type) <= bytes.size(); i += sizeof(Type)) {
    Type number;
    std::memcpy(&number, bytes.data() + i, sizeof(Type));
    numbers.push_back(number);
  }
  return numbers;
}

/// The inverse of pack().
std::vector<double> unpack(const Json& column) {
  const std::string text = column;
  const std::size_t colon = text.find(':');
  const std::string type = text.substr(0, colon), bytes = from_base64(text.substr(colon + 1));
  return type == "i8"    ? typed<std::int8_t>(bytes)
         : type == "i16" ? typed<std::int16_t>(bytes)
         : type == "i32" ? typed<std::int32_t>(bytes)
                         : typed<float>(bytes);
}

/// A layout for each schedule, small enough to verify in no time.
Json small_request(const Schedule& schedule) {
  Json request{{"schedule", schedule.name}, {"stages", 4}, {"steps", 3}};
  if (!schedule.cyclic) request["microbatches"] = 8;
  if (schedule.chunks == 0 && !schedule.cyclic) request["data_parallel"] = 3;
  return request;
}

TEST_CASE("columns: numbers come back, in the smallest type that holds them") {
  using Whole = std::vector<std::int64_t>;
  CHECK(pack(Whole{}) == "i8:");
  CHECK(pack(Whole{0, -1, 127}) == "i8:AP9/");
  CHECK(unpack(pack(Whole{0, -1, 127})) == std::vector<double>{0, -1, 127});
  CHECK(unpack(pack(Whole{128, -32768})) == std::vector<double>{128, -32768});
  CHECK(unpack(pack(Whole{40000, -5})) == std::vector<double>{40000, -5});
  CHECK(pack(Whole{40000}).substr(0, 4) == "i32:");
  CHECK_THROWS_WITH(pack(Whole{std::int64_t{1} << 40}), Contains("needs more than 32 bits"));
  CHECK(unpack(pack(std::vector<double>{0.25, 1e9})) == std::vector<double>{0.25, 1e9});
}

TEST_CASE("player: a small answer, in full") {
  const Json got = ask(
      {{"schedule", "1f1b"}, {"stages", 2}, {"microbatches", 2}, {"costs", {{"backward", {1}}}}});
  CHECK(got["text"] ==
        "stages 2 per_step 2 steps 1\n"
        "0F0v0 0a0>1 0g0<1 0F1v0 0a1>1 0g1<1 0B0v0 0B1v0 0Sv1\n"
        "0a0<0 0a1<0 1F0v0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1\n");
  CHECK(got["seconds"] == 6);
  CHECK(got["idle"][1].get<double>() == Approx(1.0 / 3));
  CHECK(got["peaks"]["activations"] == Json({2, 1}));
  CHECK(got["peaks"]["weights"] == Json({1, 1}));
  CHECK(got["formula"]["numbers"] == "1 / (2 + 1)");
  const Json& records = got["records"];
  CHECK(records["row_begin"] == Json({0, 9, 18}));
  CHECK(unpack(records["op"]) ==
        std::vector<double>{0, 4, 5, 0, 4, 5, 1, 1, 2, 5, 5, 0, 1, 4, 0, 1, 4, 2});
  CHECK(unpack(records["start"]) ==
        std::vector<double>{0, 1, 3, 1, 2, 5, 3, 5, 6, 1, 2, 1, 2, 3, 3, 4, 5, 5});
  // The second backward of rank 0 waits for its gradient, the message 0g1<1 of record 5.
  CHECK(unpack(records["cause"])[7] == 5);
  CHECK(unpack(records["other"])[5] == 16);
  const Json& memory = got["memory"]["activations"];
  CHECK(memory["peaks"] == Json({{2, 1}}));
  CHECK(unpack(memory["moments"][0]) == std::vector<double>{0, 1, 4, 6});
  CHECK(unpack(memory["level"][0]) == std::vector<double>{0, 1, 0, 2});
  CHECK(unpack(memory["bytes"][3]) == std::vector<double>{1, 2, 0});  // activations of each level
  CHECK(got["places"]["line"] == Json({1, 2}));
  CHECK(unpack(got["places"]["column"])[3] == 18);
  CHECK(unpack(got["places"]["length"])[3] == 5);
  CHECK_FALSE(got.contains("error"));
}

TEST_CASE("player: facts are those of verify and simulate, for every schedule") {
  const Json costs{{"backward", {2}}, {"latency", 0.125}, {"activation_bytes", {1000}}};
  for (const Schedule* schedule : schedules())
    for (bool endless : {false, true}) {
      INFO(schedule->name << (endless ? ", endless" : ""));
      if (endless && !schedule->has_order) continue;
      Json request = small_request(*schedule);
      request["costs"] = costs;
      request["endless"] = endless;
      if (endless) request.erase("steps");
      const Json got = ask(request);
      INFO(got.value("error", Json()));
      REQUIRE_FALSE(got.contains("error"));
      const VerifiedPlan plan = verify(parse(got["text"]));
      const Costs asked{.backward = {2}, .latency = 0.125, .activation_bytes = {1000}};
      CHECK(got["facts"] == all_facts(plan, encoded(asked, plan.plan())));
      if (schedule->has_order)  // else the verifier counts in the rows' order
        CHECK(got["peaks"]["activations"] == got["facts"]["peak_microbatches"]);
      // The plan's text gives the same answer.
      const Json again = ask({{"plan", got["text"]}, {"costs", costs}});
      for (const char* part : {"facts", "records", "held", "places", "idle", "seconds"})
        CHECK(again[part] == got[part]);
    }
}

TEST_CASE("player: ranks hold as many versions as the verifier counts") {
  for (const Json& request :
       {Json{{"schedule", "2bw"}, {"stages", 4}, {"microbatches", 4}, {"steps", 4}},
        Json{{"schedule", "pipedream"}, {"stages", 4}, {"microbatches", 8}, {"steps", 2}},
        Json{{"schedule", "paci"}, {"stages", 4}, {"microbatches", 2}, {"steps", 4}},
        Json{{"schedule", "1f1b"}, {"stages", 3}, {"microbatches", 4}, {"steps", 3}},
        Json{{"schedule", "cyclic-v1"}, {"stages", 4}, {"setting", "pipeline"}}}) {
    const Json got = ask(request);
    INFO(got["title"]);
    CHECK(got["peaks"]["weights"] == got["facts"]["live_versions"]);
  }
}

TEST_CASE("player: with ZeRO, ranks hold shards, and whole weights only while they compute") {
  const Json got = ask({{"schedule", "data"}, {"data_parallel", 2}, {"stages", 3}, {"zero", 3}});
  CHECK(got["peaks"]["weights"] == Json({0, 0}));
  CHECK(got["peaks"]["shard"] == Json({3, 3}));
  const std::vector<int> copies = got["peaks"]["copy of weights"];
  CHECK(copies[0] >= 1);
  CHECK(copies[0] <= 2);
  CHECK(got["header"]["holders"] == Json({2, 2, 2}));
}

TEST_CASE("player: a recomputed stage keeps its input between its two forwards") {
  const Json got =
      ask({{"schedule", "1f1b"}, {"stages", 2}, {"microbatches", 2}, {"recompute", true}});
  CHECK(got["peaks"]["activations"] == got["facts"]["peak_microbatches"]);
  CHECK(got["peaks"]["input"] == Json({1, 0}));
  CHECK(got["holds"][9] == "leaving");  // two outputs and two gradients, each once
  CHECK(std::ranges::count(unpack(got["held"]["hold"]), 9) == 4);
  CHECK(std::ranges::count(unpack(got["records"]["again"]), 1) == 2);
}

TEST_CASE("player: the chain of causes from the end is the critical path") {
  const Json got = ask({{"schedule", "1f1b"}, {"stages", 4}, {"microbatches", 8}});
  const VerifiedPlan plan = verify(parse(got["text"]));
  const CriticalPath path = critical_path(plan.plan(), simulate(plan, Costs()));
  const std::vector<double> causes = unpack(got["records"]["cause"]);
  for (std::size_t i = path.records.size(); i-- > 0;)
    CHECK(causes.at(path.records[i]) == (i == 0 ? -1 : path.records[i - 1]));
}

TEST_CASE("player: every schedule has an idea, and its formula is what the simulator finds") {
  for (const Schedule* schedule : schedules()) {
    INFO(schedule->name);
    const Idea* idea = find_idea(schedule->name);
    REQUIRE(idea != nullptr);
    for (const auto& [stages, microbatches, steps] :
         {std::tuple(4, 4, 1), {4, 4, 3}, {4, 8, 1}, {4, 8, 3}, {6, 8, 2}, {6, 12, 3}}) {
      Json request = small_request(*schedule);
      request["stages"] = stages;
      request["steps"] = steps;
      if (!schedule->cyclic) request["microbatches"] = microbatches;
      request["costs"] = {{"backward", schedule->cyclic ? 1 : 2}};
      const Json got = ask(request);
      INFO(stages << " stages, " << microbatches << " microbatches, " << steps << " steps");
      if (stages == 4 && microbatches == 8 && idea->bubble) CHECK_FALSE(got["formula"].is_null());
      if (got["formula"].is_null()) continue;
      const std::string where = got["formula"]["where"];
      if (where.find("U = ") != where.npos)
        CHECK_THAT(where, Contains("U = " + counted(got["header"]["steps"], "update")));
      CHECK(got["formula"]["value"].get<double>() ==
            Approx(got["facts"]["bubble"].get<double>()).margin(1e-12));
    }
  }
}

TEST_CASE("player: the idea and title fit the plan, also a text that is said to be of a schedule") {
  const Json flush{{"schedule", "1f1b"}, {"stages", 2}, {"microbatches", 2}};
  const Json got = ask(flush), of_text = ask({{"plan", got["text"]}, {"of", flush}});
  for (const char* key : {"idea", "paper", "formula", "title"}) CHECK(of_text[key] == got[key]);
  const Json lost{{"schedule", "recycle"}, {"stages", 2}, {"data_parallel", 2}, {"lost", "1"}};
  CHECK(ask(lost)["title"] == "recycle (without rank 1)");
  const Json shards{{"schedule", "data"}, {"data_parallel", 4}, {"zero", 3}};
  CHECK_THAT(ask(shards)["idea"].get<std::string>(),
             !Contains("has the whole model") && Contains("ZeRO 3: a rank keeps 1/4 of weights"));
}

TEST_CASE("player: a plan that breaks a rule is drawn up to its fault") {
  const Json got = ask({{"plan",
                         "# the backward of rank 1 has gone\n"
                         "stages 2 per_step 1 steps 1\n\n"
                         "0F0v0 0a0>1 0g0<1 0B0v0 0Sv1\n"
                         "  0a0<0 1F0v0   0g0>0 1Sv1  # here\n"}});
  CHECK(got["facts"].is_null());
  CHECK(got["error"]["rule"] == "send");
  CHECK(got["error"]["rank"] == 1);
  CHECK(got["error"]["index"] == 2);
  CHECK(got["error"]["place"] == Json({4, 16, 5}));
  CHECK(got["stopped"] == Json({3, 3}));
  CHECK(got["seconds"] == 2);
  CHECK(got["records"]["row_begin"] == Json({0, 2, 4}));
}

TEST_CASE("player: a plan that hangs is drawn up to where its ranks wait") {
  const Json got = ask({{"plan",
                         "stages 2 per_step 2 steps 1\n"
                         "0F0v0 0a0>1 0g0<1 0B0v0 0F1v0 0a1>1 0g1<1 0B1v0 0Sv1\n"
                         "0a0<0 1F0v0 0a1<0 1F1v0 1B0v0 0g0>0 1B1v0 0g1>0 1Sv1\n"}});
  CHECK(got["error"]["rule"] == "hang");
  CHECK(got["error"]["hang_free"] == false);
  CHECK(got["stopped"] == Json({3, 3}));
  CHECK(got["seconds"] == 2);
}

TEST_CASE("player: cells without a meaning are left out of the picture") {
  const Json got = ask({{"plan",
                         "stages 2 per_step 1 steps 1\n"
                         "0F0v0 0a0>1 0g0<1 0B0v0 7Sv1\n"
                         "0a0<0 1F0v0 1B0v0 0g0>0 1Sv1\n"}});
  CHECK(got["error"]["rule"] == "shape");
  CHECK(got["error"]["place"] == Json({1, 24, 4}));
  CHECK(got["seconds"] == 6);
}

TEST_CASE("player: a word that can't be read is found in the text") {
  const Json got = ask({{"plan", "stages 1 per_step 1 steps 1\n0F0v0 0X0v0 0Sv1\n"}});
  CHECK(got["error"]["rule"] == "text");
  CHECK(got["error"]["place"] == Json({1, 6, 5}));
  CHECK(got["text"] == "stages 1 per_step 1 steps 1\n0F0v0 0X0v0 0Sv1\n");
}

TEST_CASE("player: a broken endless plan and a broken message-driven one have pictures") {
  for (Json request : {Json{{"schedule", "1f1b"}, {"endless", true}},
                       Json{{"schedule", "message-driven"}, {"steps", 2}}}) {
    request["stages"] = 2;
    request["microbatches"] = 2;
    std::string plan = ask(request)["text"];
    plan.replace(plan.rfind("1Sv"), 3, "1Sv9");
    const Json got = ask({{"plan", plan}});
    CHECK(got.contains("error"));
    CHECK(got["error"]["place"].is_array());
    CHECK(got.contains("records"));
  }
}

TEST_CASE("player: odd requests are answered with a sentence") {
  auto message = [](const std::string& request) {
    return Json::parse(answer(request))["error"]["message"].get<std::string>();
  };
  CHECK_THAT(message("{"), Contains("parse error"));
  CHECK_THAT(message("[]"), Contains("a request is an object"));
  CHECK_THAT(message("{}"), Contains("needs a \"plan\" or a \"schedule\""));
  CHECK_THAT(message(R"({"plan": "x", "schedule": "1f1b"})"), Contains("not both"));
  CHECK_THAT(message(R"({"plan": 3})"), Contains("plan: expected text, got 3"));
  CHECK_THAT(message(R"({"plan": ""})"), Contains("neither"));
  CHECK_THAT(message(R"({"schedule": "none"})"), Contains("none"));
  CHECK_THAT(message(R"({"schedule": "1f1b", "stages": -1})"), Contains("stages: expected"));
  CHECK_THAT(message(R"({"schedule": "1f1b", "stages": 2.5})"), Contains("a whole number"));
  CHECK_THAT(message(R"({"schedule": "1f1b", "colour": 1})"), Contains("no \"colour\""));
  CHECK_THAT(message(R"({"schedule": "1f1b", "chunks": 2})"), Contains("no choice of chunks"));
  CHECK_THAT(message(R"({"schedule": "1f1b", "costs": {"forward": [-1]}})"),
             Contains("forward: expected a number"));
  CHECK_THAT(message(R"({"schedule": "1f1b", "costs": {"forwards": [1]}})"),
             Contains("no \"forwards\""));
  CHECK_THAT(message(R"({"schedule": "1f1b", "stages": 2, "costs": {"forward": [1, 2, 3]}})"),
             Contains("forward has 3 values for 2 stages"));
  CHECK_THAT(message(R"({"schedule": "interleaved", "stages": 3})"), Contains("can't have 3"));
  CHECK_THAT(message(R"({"schedule": "message-driven", "endless": true})"), Contains("timing"));
}

TEST_CASE("player: the list of schedules has their own fields") {
  const Json all = list_of_schedules();
  CHECK(all.size() == schedules().size());
  const auto found = std::ranges::find(all, "interleaved", [](const Json& x) { return x["name"]; });
  REQUIRE(found != all.end());
  CHECK((*found)["own"] == Json{"chunks"});
}

TEST_CASE("player: one slow rank slows its computations") {
  const Json got = ask({{"schedule", "1f1b"},
                        {"stages", 2},
                        {"microbatches", 1},
                        {"slow_rank", 1},
                        {"slow_factor", 2}});
  CHECK(got["seconds"] == 9);
  CHECK(ask({{"schedule", "1f1b"}, {"slow_rank", 9}, {"slow_factor", 2}})["seconds"] == 3);
}

}  // namespace
}  // namespace plangrad::examples
