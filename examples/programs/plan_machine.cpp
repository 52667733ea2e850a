// Times are the shortest of several, as what else a machine does only makes them longer.
// Chapter 06.
#include "examples/programs/plan_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include "autograd/cpu/cpu_backend.h"
#include "examples/pages/machine_texts.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"
#include "parallel/simulation/machine.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/mpi_transport.h"

namespace plangrad::examples {

using namespace autograd;
using namespace parallel;

std::string machine_words() {
  std::string names;
  for (const auto& [name, text] : known_machines()) names += (names.empty() ? "" : ", ") + name;
  return names + "; or a file like that which plan machine NAME prints";
}

std::string machine_text(const std::string& name_or_file) {
  const auto& known = known_machines();
  if (const auto found = known.find(name_or_file); found != known.end()) return found->second;
  PG_CHECK(std::filesystem::is_regular_file(name_or_file), "there is no machine and no file ",
           name_or_file, "; machines are ", machine_words());
  std::string content = nn::read_file(name_or_file, nn::most::config);
  located(name_or_file + ", ", [&] { parse_machine(content); });
  return content;
}

namespace {

/// The shortest of the times that `work` takes, in seconds, tried for a while.
template <class Work>
double shortest(const Work& work, int times = 3, double for_seconds = 0.3) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int i = 0; i < times || spent < for_seconds; ++i) {
    const auto begin = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// Operations per second of square products, by size.
std::map<int, double> product_rates(DType dtype) {
  std::map<int, double> rates;
  for (int n : {64, 128, 256, 512, 1024}) {
    const Tensor a = full({1, n, n}, 0.5, dtype, cpu_device()), c = empty_like(a);
    rates[n] = 2.0 * n * n * n / shortest([&] { a.backend().gemm({}, a, a, {}, c); });
  }
  return rates;
}

/// The rate of endless products, and the tile, with which rate (n / (n + tile))^3 has the least
/// relative errors.
std::pair<double, double> fit(const std::map<int, double>& rates) {
  std::pair<double, double> best;
  double least = std::numeric_limits<double>::infinity();
  for (double tile = 0; tile <= 256; tile += 1) {
    double sum = 0, squares = 0;
    for (const auto& [n, rate] : rates) sum += std::log(rate * std::pow(1 + tile / n, 3));
    const double peak = std::exp(sum / static_cast<double>(rates.size()));
    for (const auto& [n, rate] : rates)
      squares += std::pow(std::log(rate * std::pow(1 + tile / n, 3) / peak), 2);
    if (squares < least) least = squares, best = {peak, tile};
  }
  return best;
}

/// Bytes per second that sums of large vectors read and write.
double memory_rate() {
  constexpr std::int64_t count = 1 << 24;
  const Tensor x = full({count}, 1, DType::f32, cpu_device()), sum = empty_like(x);
  sum.backend().fill(0, sum);
  return 3.0 * static_cast<double>(x.bytes()) /
         shortest([&] { x.backend().accumulate(x, sum); }, 3, 1);
}

/// Seconds of a message from rank 0 to `peer`: half of the way there and back.
double one_way(Transport& transport, int peer, std::int64_t bytes) {
  const bool first = transport.rank() == 0;
  std::vector<char> data(bytes);
  const Message message{first ? peer : 0, control_channel, data.data(), bytes};
  auto pass = [&](bool sends) {
    const auto request = sends ? transport.send(message) : transport.receive(message);
    wait_for(transport, *request, 60, "a message that is measured");
  };
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 50; ++i)
    best = std::min(best, shortest([&] { pass(first), pass(!first); }, 1, 0));
  return best / 2;
}

/// The link that two sizes of messages give. Ranks other than 0 and `peer` do nothing.
Link measured_link(Transport& transport, const char* name, Reach reach, int peer) {
  if (transport.rank() != 0 && transport.rank() != peer) return {};
  constexpr std::int64_t small = 8, large = 4 << 20;
  const double latency = one_way(transport, peer, small);
  const double beyond = std::max(one_way(transport, peer, large) - latency, 1e-9);
  return {name, reach, static_cast<double>(large) / beyond, latency};
}

/// Links from rank 0 to the first other rank on its host, and to the first one elsewhere.
std::vector<Link> measured_links(Transport& transport, const std::vector<int>& hosts) {
  std::vector<Link> links;
  for (const bool inside : {true, false})
    for (int peer = 1; peer < transport.size(); ++peer)
      if ((hosts[peer] == hosts[0]) == inside) {
        links.push_back(inside ? measured_link(transport, "memory", Reach::pair, peer)
                               : measured_link(transport, "card", Reach::card, peer));
        break;
      }
  return links;
}

/// Three digits of a number: the others are noise.
double rounded(double x) { return std::stod(fmt::format("{:.3g}", x)); }

std::string measured_text(const std::string& name, std::vector<Link> links, int devices) {
  Machine machine{.name = name, .memory_bandwidth = rounded(memory_rate()), .cores = 1};
  std::string comments = text(measured_start, "; a device is a core, or a process.\n");
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto rates = product_rates(dtype);
    const auto [peak, tile] = fit(rates);
    (dtype == DType::f32 ? machine.peak_f32 : machine.peak_f16) = rounded(peak);
    if (dtype == DType::f32) machine.tile = tile;
    comments += fmt::format("# {} products of n x n, operations/s:", name_of(dtype));
    for (const auto& [n, rate] : rates) comments += fmt::format("  {}: {:.3g}", n, rate);
    comments += '\n';
  }
  machine.memory = rounded(static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                           static_cast<double>(::sysconf(_SC_PAGESIZE)) / devices);
  for (Link& link : links)
    link.bandwidth = rounded(link.bandwidth), link.latency = rounded(link.latency);
  machine.topology = {links, devices};
  return comments + print(machine);
}

}  // namespace

void measure_machine(const std::string& name, bool processes,
                     const std::function<void(const std::string&)>& write) {
  set_compute_threads(1);
  if (!processes) {
    std::vector<Link> links;
    run_ranks(2, [&](Transport& transport) {
      const std::vector<Link> found = measured_links(transport, {0, 0});
      if (transport.rank() == 0) links = found;
    });
    return write(measured_text(name, links, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))));
  }
  MpiWorld world;
  world.run([&](Transport& transport) {
    const std::vector<int> hosts = hosts_of_ranks(transport, 60);
    const std::vector<Link> links = measured_links(transport, hosts);
    if (transport.rank() > 0) return;
    const auto devices = static_cast<int>(std::ranges::count(hosts, hosts[0]));
    write(measured_text(name, links, devices));
  });
}

}  // namespace plangrad::examples
