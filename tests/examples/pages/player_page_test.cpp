// The player's page: one file with everything in it.
#include "examples/pages/player/player_page.h"

#include <nlohmann/json.hpp>
#include <set>

#include "autograd/version.h"
#include "examples/pages/page_text.h"
#include "examples/pages/report_page.h"
#include "parallel/schedules/schedule.h"
#include "tests/catch.h"

namespace plangrad::examples {
namespace {

/// The JSON in a page, as its scripts read it.
nlohmann::json data_of(const std::string& page) {
  const std::string opening = "id=\"plans\">";
  const std::size_t begin = page.find(opening) + opening.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST_CASE("player page: it holds plans, answers and the list of schedules") {
  const std::string request = R"({"schedule":"2bw","stages":2,"microbatches":2,"steps":2})";
  const nlohmann::json data = data_of(player_page({{request}, {R"({"schedule":"1f1b"})"}}));
  CHECK(data["plans"].size() == 2);
  CHECK(data["plans"][0]["request"]["schedule"] == "2bw");
  CHECK(data["plans"][0]["answer"]["facts"]["staleness"] == 1);
  CHECK(data["schedules"].size() == parallel::schedules().size());
  const auto key = [](const nlohmann::json& field) { return field["key"]; };
  const auto zero = std::ranges::find(data["fields"], "zero", key);
  REQUIRE(zero != data["fields"].end());
  CHECK((*zero)["most"] == 3);
  CHECK_THROWS_WITH(player_page({}), Contains("needs a plan"));
}

TEST_CASE("player page: it needs no network, and all that its scripts look up is there") {
  const std::string page = player_page({{R"({"schedule":"gpipe","stages":2})"}});
  for (const char* outside :
       {"src=", "@import", "url('", "url(\"", "url(h", "<link rel=\"stylesheet"})
    CHECK(page.find(outside) == page.npos);  // CHECK_THAT writes the page down each time
  const std::string opening = "byId('";
  std::set<std::string> ids;
  for (std::size_t at = 0; (at = page.find(opening, at)) != std::string::npos;) {
    at += opening.size();
    ids.insert(page.substr(at, page.find('\'', at) - at));
  }
  CHECK(ids.size() > 15);
  for (const std::string& id : ids) {
    INFO(id);
    CHECK(page.find("id=\"" + id + "\"") != page.npos);
  }
}

TEST_CASE("player page: it says by which command and version it was made") {
  CHECK(data_of(player_page({{R"({"schedule":"1f1b"})"}}, "plan draw"))["made"] ==
        nlohmann::json{{"command", "plan draw"}, {"version", autograd::version()}});
}

TEST_CASE("player page: a plan's name can't end the script that holds it") {
  const std::string request = R"({"plan":"stages 1 per_step 1 steps 1\n0F0v0 0B0v0 0Sv1\n",)"
                              R"("title":"<!--<script></script>"})";
  const std::string page = player_page({{request}});
  CHECK_THAT(page, !Contains("<!--<script>"));
  CHECK(data_of(page)["plans"][0]["answer"]["title"] == "<!--<script></script>");
}

TEST_CASE("pages load nothing, draw timelines, and hold data in which no script begins") {
  const std::string data = R"({"note":"<!--<script></script>"})";
  const std::string player = player_page({{R"({"schedule":"1f1b"})"}});
  for (const std::string& page : {run_page("<b>", data), comparison_page("<b>", data), player}) {
    CHECK_THAT(page,
               Contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"));
    CHECK(page.find("Content-Security-Policy") < page.find("<style>"));
    CHECK_THAT(page, !Contains("<!--<script>") && !Contains("<title><b>"));
    CHECK_THAT(page, Contains("function timelineData") && Contains("class Timeline"));
  }
  CHECK(json_in_page(data) == R"({"note":"\u003c!--\u003cscript>\u003c/script>"})");
}

}  // namespace
}  // namespace plangrad::examples
