// Keys and places are tables, which reading, printing and errors walk. Pretended times are costs,
// so that the simulator's rules for them hold for runs, too. Chapter 06.
#include "parallel/simulation/machine.h"

#include "parallel/plan/fields.h"

namespace plangrad::parallel {
namespace {

struct Constant {
  const char *line, *name;
  double Machine::*value;
  double least, most;
};
constexpr Constant keys[] = {{"device", "memory", &Machine::memory, 1, 1e30},
                             {"device", "bandwidth", &Machine::memory_bandwidth, 1e3, 1e30},
                             {"device", "peak.f32", &Machine::peak_f32, 1e3, 1e30},
                             {"device", "peak.f16", &Machine::peak_f16, 1e3, 1e30},
                             {"device", "cores", &Machine::cores, 1, 1e6},
                             {"fitted", "efficiency", &Machine::efficiency, 1e-3, 1},
                             {"fitted", "tile", &Machine::tile, 0, 1e6},
                             {"fitted", "memory_share", &Machine::memory_share, 1e-3, 1},
                             {"fitted", "host", &Machine::host_seconds, 0, 1e3},
                             {"fitted", "piece", &Machine::piece, 1024, 1e15}};

struct Where {
  const char* words;
  Reach reach;
};
constexpr Where places[] = {{"between devices of a host", Reach::pair},
                            {"of a device", Reach::device},
                            {"within a host", Reach::host},
                            {"from a device to its host", Reach::bus},
                            {"of a host", Reach::card}};
constexpr const char* one_way_words = "one way at a time";

/// The words of a line, up to a comment.
class Words {
 public:
  explicit Words(const std::string& line) : in_(line.substr(0, line.find('#'))) {}
  /// The next word; empty: there is none.
  std::string next() {
    std::string word;
    in_ >> word;
    return word;
  }
  template <class T>
  T number(const std::string& what, T least, T most) {
    try {
      return read_number(next(), least, most);
    } catch (const Error& error) {
      throw Error(autograd::text(what, ": ", error.what()));
    }
  }
  /// Takes these words if they come next.
  bool take(const std::string& words) {
    const auto here = in_.tellg();
    std::istringstream expected(words);
    for (std::string word; expected >> word;)
      if (next() != word) {
        in_.clear();
        in_.seekg(here);
        return false;
      }
    return true;
  }
  void end() {
    const std::string word = next();
    PG_CHECK(word.empty(), "unknown word ", word);
  }

 private:
  std::istringstream in_;
};

/// A machine, and what lines have said of it so far.
struct Reading {
  Machine machine = {};
  std::set<std::string> given = {};

  void once(const std::string& what) {
    PG_CHECK(given.insert(what).second, what, " is given twice; leave one out");
  }
};

void read_values(const std::string& line, Words& words, Reading& reading) {
  std::vector<std::string> names;
  for (const Constant& key : keys)
    if (line == key.line) names.push_back(key.name);
  std::string name = words.next();
  do {
    check_choice(name, names);
    reading.once(name);
    const Constant& key = *std::ranges::find(keys, name, &Constant::name);
    reading.machine.*key.value = words.number(name, key.least, key.most);
  } while (!(name = words.next()).empty());
}

Link read_link(Words& words, Reading& reading) {
  Link link{.name = words.next()};
  reading.once("link " + link.name);
  const auto place =
      std::ranges::find_if(places, [&](const Where& each) { return words.take(each.words); });
  std::string known;
  for (const Where& each : places) known += autograd::text(known.empty() ? "" : "; ", each.words);
  PG_CHECK(place != std::end(places), "link ", link.name,
           ": which messages use it? Say one of: ", known);
  link.reach = place->reach;
  link.bandwidth = words.number(link.name, 1.0, 1e30);
  PG_CHECK(words.take("B/s"), "link ", link.name, ": expected B/s after its bandwidth");
  link.latency = words.number(link.name, 0.0, 1e6);
  PG_CHECK(words.take("s"), "link ", link.name, ": expected s after its latency");
  link.one_way = words.take(one_way_words);
  return link;
}

void read_line(const std::string& kind, Words& words, Reading& reading) {
  Machine& machine = reading.machine;
  if (kind == "machine") {
    reading.once(kind);
    machine.name = words.next();
    PG_CHECK(!machine.name.empty(), "the machine has no name");
  } else if (kind == "hosts") {
    reading.once(kind);
    machine.topology.devices_per_host = words.number(kind, 1, 1'000'000);
    PG_CHECK(words.take("devices"), "expected: hosts NUMBER devices");
  } else if (kind == "link") {
    machine.topology.links.push_back(read_link(words, reading));
  } else {
    PG_CHECK(kind == "device" || kind == "fitted", "unknown word ", kind,
             "; a line begins with machine, device, fitted, hosts or link");
    return read_values(kind, words, reading);
  }
  words.end();
}

/// Puts the pretended seconds of each stage that has some into `list`.
void put(const std::vector<double>& pretended, std::vector<double>& list) {
  for (int stage = 0; stage < std::ssize(list); ++stage)
    if (const double seconds = value_at(stage, pretended); seconds > 0) list[stage] = seconds;
}

}  // namespace

double seconds(const Machine& machine, const autograd::KernelTable& kernels) {
  double sum = 0;
  auto needs = [&](double number, const char* name) {
    PG_CHECK(number > 0, "the machine ", machine.name, " has no ", name, ", which kernels need");
    return number;
  };
  auto share = [&](std::int64_t size) {
    return size > 0 ? static_cast<double>(size) / (static_cast<double>(size) + machine.tile) : 1;
  };
  for (const auto& [kind, calls] : kernels) {
    const bool is_f32 = calls.dtype == autograd::DType::f32;
    const auto& [m, n, k, count] = calls.products;
    if (calls.flops > 0)
      sum += calls.flops / (share(m) * share(n) * share(k) * machine.efficiency *
                            needs(is_f32 ? machine.peak_f32 : machine.peak_f16,
                                  is_f32 ? "peak.f32" : "peak.f16"));
    else
      sum += calls.bytes / (needs(machine.memory_bandwidth, "bandwidth") * machine.memory_share);
  }
  return sum;
}

Machine parse_machine(const std::string& text) {
  Reading reading;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    Words words(line);
    try {
      if (const std::string kind = words.next(); !kind.empty()) read_line(kind, words, reading);
    } catch (const Error& error) {
      throw Error(autograd::text("line ", number, ": ", error.what()));
    }
  }
  PG_CHECK(!reading.machine.name.empty(), "line 1: a machine begins with \"machine NAME\"");
  return std::move(reading.machine);
}

std::string print(const Machine& machine) {
  std::string text = fmt::format("machine {}\n", machine.name);
  const Machine plain;
  for (const char* line : {"device", "fitted"}) {
    std::string values;
    for (const Constant& key : keys)
      if (std::string(key.line) == line && machine.*key.value != plain.*key.value)
        values += fmt::format("  {} {}", key.name, machine.*key.value);
    if (!values.empty()) text += line + values + '\n';
  }
  if (machine.topology.devices_per_host > 0)
    text += fmt::format("hosts   {} devices\n", machine.topology.devices_per_host);
  for (const Link& link : machine.topology.links) {
    const auto place = std::ranges::find(places, link.reach, &Where::reach);
    text += fmt::format("link    {}  {}  {} B/s  {} s{}\n", link.name, place->words, link.bandwidth,
                        link.latency, link.one_way ? autograd::text("  ", one_way_words) : "");
  }
  return text;
}

bool Pretended::computes() const {
  for (const auto* list : {&forward, &backward, &step})
    if (std::any_of(list->begin(), list->end(), [](double x) { return x > 0; })) return true;
  return false;
}

double Pretended::seconds(const Plan& plan, const Instruction& x) const {
  if (!is_compute(x)) return 0;
  return duration(x, 0, plan, {.forward = forward, .backward = backward, .step = step});
}

int Pretended::computations(const Plan& plan) const {
  if (!computes()) return 0;
  int count = 0;
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) count += seconds(plan, x) > 0;
  return count;
}

std::string lateness(std::int64_t late, std::int64_t computations) {
  return autograd::text(late, " of ", computations, " computations took longer than pretended; ",
                        "the times are not those of the devices");
}

Costs Pretended::instead_of(Costs measured, const Plan& plan) const {
  measured.forward.resize(plan.stages);
  measured.backward.resize(plan.stages);
  measured.step.resize(plan.stage_count());
  put(forward, measured.forward);
  put(backward, measured.backward);
  std::vector<double> half = backward;
  for (double& seconds : half) seconds /= 2;
  put(half, measured.input_part);
  put(half, measured.weight_part);
  put(step, measured.step);
  if (links())
    measured.machine = std::make_shared<Machine>(
        Machine{.name = machine.empty() ? "pretended" : machine, .topology = topology});
  return measured;
}

}  // namespace plangrad::parallel
