// Parses lists of times, and rejects what would have no effect. Chapter 06.
#include "examples/programs/pretend_flags.h"

#include "examples/programs/plan_machine.h"
#include "examples/programs/program.h"
#include "parallel/plan/fields.h"

namespace plangrad::examples {
namespace {

double number_of(const char* flag, const std::string& word, double lowest, double highest) {
  return located(text(flag, ": "), [&] { return parallel::read_number(word, lowest, highest); });
}

bool is_given(const std::string& value) { return !value.empty() && value != "none"; }

/// A set of times for each stage, or one for all: forward, backward and update.
std::vector<std::vector<double>> sets_of(const std::string& compute) {
  std::vector<std::vector<double>> sets;
  double sum = 0;
  for (const std::string& set : parallel::split(compute, ';')) {
    const std::vector<std::string> words = parallel::split(set, ',');
    PG_CHECK(words.size() == 2 || words.size() == 3, "--pretend-compute ", compute,
             ": expected FORWARD,BACKWARD or FORWARD,BACKWARD,UPDATE in seconds, got ", set);
    std::vector<double>& times = sets.emplace_back();
    for (const std::string& word : words)
      sum += times.emplace_back(number_of("--pretend-compute", word, 0, parallel::longest_sleep));
    times.resize(3, 0);
  }
  PG_CHECK(sum > 0, "--pretend-compute ", compute, ": all times are 0, so nothing is pretended; ",
           "leave it out, or use none");
  return sets;
}

/// Every pair's link; of ranks that share cards, the card, and perhaps the links within a host,
/// which are else as fast.
std::vector<parallel::Link> links_of(const std::string& all, bool cards) {
  const std::vector<std::string> each = parallel::split(all, ';');
  PG_CHECK(each.size() == 1 || (cards && each.size() == 2), "--pretend-link ", all,
           ": a second link is for messages within a host, with --pretend-cards");
  std::vector<parallel::Link> links;
  for (const std::string& link : each) {
    const std::vector<std::string> words = parallel::split(link, ',');
    PG_CHECK(words.size() == 2, "--pretend-link ", link,
             ": expected LATENCY,BANDWIDTH in seconds and bytes per second");
    constexpr double slowest = 1, fastest = 1e30;
    links.push_back({"links", parallel::Reach::pair,
                     number_of("--pretend-link", words[1], slowest, fastest),
                     number_of("--pretend-link", words[0], 0, parallel::longest_sleep)});
  }
  if (!cards) return links;
  if (links.size() == 1) links.push_back(links[0]);
  links[0].name = "cards";
  links[0].reach = parallel::Reach::card;
  return links;
}

}  // namespace

void PretendFlags::add_flags(Flags& flags) {
  flags.group("Pretended devices");
  flags.words("--pretend-compute", compute, "F,B[,U][;...]",
              "seconds of a stage's forward, backward and update: one set for all stages, or one "
              "per stage, separated by ;. A training computation does its arithmetic and sleeps "
              "until this time has passed; the report counts those that took longer. The two parts "
              "of a split backward take half each; 0, or no update: as long as the arithmetic; "
              "none: nothing is pretended");
  flags.words("--pretend-link", link, "LATENCY,BANDWIDTH[;...]",
              "seconds, and bytes per second: holds the messages of plans back as if each ordered "
              "pair of ranks had such a link; none: links are as they are. With --pretend-cards, a "
              "second pair after a ; is for messages within a host (default: as the cards)");
  flags.words("--pretend-machine", machine, "NAME|FILE",
              "holds the messages of plans back as if ranks were this machine's devices, in order, "
              "instead of --pretend-link; see plan machine");
  flags.yes("--pretend-cards", cards,
            "the ranks of a host (--ranks-per-host) share one network card of that --pretend-link: "
            "messages between hosts queue for it, outward and inward");
}

void PretendFlags::check(const std::string& device, const std::string& transport,
                         int ranks_per_host) const {
  if (is_given(compute)) sets_of(compute);
  if (is_given(link)) links_of(link, cards);
  const bool has_links = is_given(link) || is_given(machine);
  PG_CHECK(!is_given(link) || !is_given(machine),
           "--pretend-link and --pretend-machine: both give ", "links; use one of them");
  PG_CHECK(!is_given(machine) ||
               !parallel::parse_machine(machine_text(machine)).topology.shares_links() ||
               transport == "threads",
           "--pretend-machine: what shares a link is known only where all ranks are threads; use ",
           "--transport threads");
  PG_CHECK(!is_given(compute) || device == "cpu",
           "--pretend-compute: the time of a computation is ",
           "known only on the CPU, a GPU computes while the rank continues; use --device cpu");
  PG_CHECK(!has_links || transport != "nccl", "--pretend-link: NCCL moves messages itself, and ",
           "nothing can hold them back; use --transport threads or mpi");
  PG_CHECK(!cards || is_given(link), "--pretend-cards: the cards need a speed; add --pretend-link ",
           "LATENCY,BANDWIDTH");
  PG_CHECK(!cards || transport == "threads",
           "--pretend-cards: what queues for a card is known only ",
           "where all ranks are threads; use --transport threads");
  PG_CHECK(!cards || ranks_per_host > 0, "--pretend-cards: say which ranks share a host with ",
           "--ranks-per-host N");
}

parallel::Pretended PretendFlags::found(int stages, int ranks, int ranks_per_host) const {
  parallel::Pretended result;
  if (is_given(compute)) {
    const std::vector<std::vector<double>> sets = sets_of(compute);
    const auto count = static_cast<int>(sets.size());
    PG_CHECK(count == 1 || count == stages, "--pretend-compute has ", count, " sets of times for ",
             counted(stages, "stage"), ": give one, or one for each");
    result.forward = result.backward = result.step = {};
    for (const std::vector<double>& times : sets) {
      result.forward.push_back(times[0]);
      result.backward.push_back(times[1]);
      result.step.push_back(times[2]);
    }
    if (count > 1) result.step.push_back(0);  // the tied stage's update takes as long as it does
  }
  if (is_given(machine)) {
    const parallel::Machine found = parallel::parse_machine(machine_text(machine));
    result.machine = found.name;
    result.topology = found.topology;
    const auto joins_hosts = [](const parallel::Link& each) {
      return each.reach >= parallel::Reach::bus;
    };
    PG_CHECK(result.topology.host(ranks - 1) == 0 || result.topology.links.empty() ||
                 std::ranges::any_of(result.topology.links, joins_hosts),
             "--pretend-machine ", machine, ": no link joins its hosts, and ", ranks,
             " ranks are more than the ", counted(result.topology.devices_per_host, "device"),
             " of one; use fewer ranks, or a machine with a link \"of a host\"");
  }
  if (!is_given(link)) return result;
  PG_CHECK(ranks > 1, "--pretend-link: one rank sends no messages; leave it out, or use none");
  result.topology.links = links_of(link, cards);
  if (!cards) return result;
  PG_CHECK(ranks_per_host < ranks, "--pretend-cards: --ranks-per-host ", ranks_per_host,
           " puts all ", ranks,
           " ranks on one host, where messages need no card; use fewer per host");
  result.topology.devices_per_host = ranks_per_host;
  return result;
}

std::shared_ptr<parallel::PretendedNetwork> network_of(const parallel::Pretended& pretended,
                                                       bool one_process) {
  if (!pretended.links()) return nullptr;
  return std::make_shared<parallel::PretendedNetwork>(pretended.topology, one_process);
}

}  // namespace plangrad::examples
