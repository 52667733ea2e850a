// Time and bytes of single instructions, from the costs of stages and links.
// Not here: waiting (simulate).
// Chapter 06; the formulas of reductions are chapter 04's.
#include "parallel/simulation/costs.h"

#include "parallel/plan/fields.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {
namespace {

template <class T>
void check_list(const char* name, const std::vector<T>& list, int count,
                const char* what = "stage") {
  PG_CHECK(list.size() == 1 || list.size() == static_cast<std::size_t>(count), "costs: ", name,
           " has ", list.size(), " values for ", counted(count, what),
           ": give one, or one for each");
  for (T value : list)
    PG_CHECK(value >= 0 && value <= std::numeric_limits<T>::max(), "costs: ", name, " is ", value,
             ", expected a number from 0 on");
}

template <class T>
const std::vector<T>& given(const std::vector<T>& list, const std::vector<T>& otherwise) {
  return list.empty() ? otherwise : list;
}

/// Bytes of messages, each as long as the codec makes it.
std::vector<std::int64_t> encoded_each(const CodecSpec& spec, std::vector<std::int64_t> list,
                                       int element = 4) {
  for (std::int64_t& bytes : list)
    if (bytes > 0 && spec != CodecSpec()) bytes = encoded_bytes(spec, bytes / element, element);
  return list;
}

/// A machine as a text, which pages of plans carry.
struct AsMachine : AsText<std::string> {
  using Pointer = std::shared_ptr<const Machine>;
  static constexpr const char* sign = "NAME|FILE";
  static std::string show(const Pointer& machine) { return machine ? print(*machine) : ""; }
  static Pointer read(const std::string& text, double, double) {
    return std::make_shared<Machine>(parse_machine(text));
  }
};

constexpr FieldTraits half_of_backward{.usual = "half of --backward"};
constexpr Field<Costs> fields[] = {
    row<&Costs::forward>("forward", "seconds per forward of a microbatch"),
    row<&Costs::backward>("backward", "seconds per backward of a microbatch",
                          {.usual = "2, or the sum of both parts"}),
    row<&Costs::input_part>("input_part", "seconds per input part, I, of a split backward",
                            half_of_backward),
    row<&Costs::weight_part>("weight_part", "seconds per weight part, W, of a split backward",
                             half_of_backward),
    row<&Costs::step>("step", "seconds per update"),
    row<&Costs::activation_bytes>("activation_bytes", "bytes of a stage's output per microbatch"),
    row<&Costs::weight_bytes>("weight_bytes", "bytes of a stage's weights, or gradient"),
    row<&Costs::slowness>("slowness", "how many times longer a rank computes"),
    row<&Costs::bandwidth>("bandwidth", "bytes per second of every link",
                           {.least = 1e-30, .usual = "unlimited"}),
    row<&Costs::latency>("latency", "seconds added to every message"),
    row_as<AsMachine, &Costs::machine>("machine", "whose links messages take and share, instead"),
    row<&Costs::devices>("devices", "the device of each rank on the machine",
                         {.usual = "rank r on device r"}),
    row_as<AsChoice<AllReduce, reductions>, &Costs::sums, &Summing::how>(
        "reduction", "how a group's sum is made: see train_gpt --help"),
    row<&Costs::sums, &Summing::hosts>("hosts",
                                       "the host of each rank, for --reduction hierarchical",
                                       {.usual = "those of --machine, else all on one"}),
};

}  // namespace

const std::vector<const Field<Costs>*>& cost_fields() {
  static const std::vector<const Field<Costs>*> all = [] {
    std::vector<const Field<Costs>*> found;
    for (const Field<Costs>& field : fields) found.push_back(&field);
    return found;
  }();
  return all;
}

void check(const Costs& costs, const Plan& plan) {
  check_list("forward", costs.forward, plan.stages);
  check_list("backward", costs.backward, plan.stages);
  check_list("input_part", given(costs.input_part, costs.backward), plan.stages);
  check_list("weight_part", given(costs.weight_part, costs.backward), plan.stages);
  check_list("step", costs.step, plan.stage_count());
  check_list("activation_bytes", costs.activation_bytes, plan.stages);
  check_list("activation_gradient_bytes",
             given(costs.activation_gradient_bytes, costs.activation_bytes), plan.stages);
  check_list("weight_bytes", costs.weight_bytes, plan.stage_count());
  check_list("sum_bytes", given(costs.sum_bytes, costs.weight_bytes), plan.stage_count());
  check_list("slowness", costs.slowness, plan.ranks(), "rank");
  check_list("latency", std::vector<double>{costs.latency}, 1);
  if (!costs.sums.hosts.empty()) check_list("hosts", costs.sums.hosts, plan.ranks(), "rank");
  PG_CHECK(costs.devices.empty() || std::ssize(costs.devices) == plan.ranks(),
           "costs: devices has ", counted(costs.devices.size(), "value"), " for ",
           counted(plan.ranks(), "rank"), ": give one for each");
  PG_CHECK(costs.bandwidth > 0, "costs: bandwidth is ", costs.bandwidth,
           " bytes/s, expected more than 0; leave it out for links that take no time");
}

std::int64_t bytes_of(const Instruction& x, const Costs& costs) {
  switch (x.what) {
    case Value::activation: return value_at(x.stage, costs.activation_bytes);
    case Value::activation_gradient:
      return value_at(x.stage, given(costs.activation_gradient_bytes, costs.activation_bytes));
    case Value::gradient_sum: return value_at(x.stage, given(costs.sum_bytes, costs.weight_bytes));
    case Value::weights: return value_at(x.stage, costs.weight_bytes);
    case Value::norm: return sizeof(double);
    default: return 0;  // a turn is empty
  }
}

Topology topology_of(const Costs& costs) {
  if (!costs.machine) return pair_links(costs.latency, costs.bandwidth);
  Topology topology = costs.machine->topology;
  topology.devices = costs.devices;
  return topology;
}

double duration(const Instruction& x, int rank, const Plan& plan, const Costs& costs) {
  auto computed = [&](const std::vector<double>& list) {
    return value_at(rank, costs.slowness) * value_at(x.stage, list);
  };
  auto backward = [&] {
    if (x.what == Value::none) return computed(costs.backward);
    const auto& part = x.what == Value::input_part ? costs.input_part : costs.weight_part;
    return part.empty() ? computed(costs.backward) / 2 : computed(part);
  };
  switch (operation(x).cost) {
    case Cost::nothing: return 0;
    case Cost::forward: return computed(costs.forward);
    case Cost::backward: return backward();
    case Cost::step: return computed(costs.step);
    case Cost::message: break;
    case Cost::reduction:
    case Cost::gather: return meeting_seconds(x, plan, costs);
  }
  const std::int64_t bytes = bytes_of(x, costs);
  if (!costs.machine) return costs.latency + static_cast<double>(bytes) / costs.bandwidth;
  Traffic traffic(topology_of(costs));
  traffic.start(receives(x) ? x.peer : rank, receives(x) ? rank : x.peer, bytes, 0, 0);
  return traffic.next(std::numeric_limits<double>::infinity())->time;
}

std::int64_t bytes_sent(const Instruction& x, int rank, const Plan& plan, const Costs& costs) {
  const auto [sends, chunks, rounds] = sent_by(x, rank, plan, costs);
  return sends * bytes_of(x, costs) / chunks;
}

Costs encoded(Costs costs, const Plan& plan, const char* weights_name) {
  const std::vector<std::int64_t>& weights = costs.weight_bytes;
  PG_CHECK(is_local(plan.codec) || weights == std::vector<std::int64_t>(weights.size()),
           weights_name, ": how many bytes the codec ", print(plan.codec), " sends depends on the ",
           "shapes of matrices, which a plan doesn't know; leave out one of the two, or give the ",
           "bytes of the factors as the ", weights_name, " of a plan without a codec");
  costs.sum_bytes = encoded_each(plan.codec, weights);
  encode_activations(costs, plan.channel);
  return costs;
}

void encode_activations(Costs& costs, const CodecSpec& channel, int element) {
  costs.output_bytes = costs.activation_bytes;
  costs.activation_bytes = encoded_each(channel, costs.output_bytes, element);
  // A sparse gradient uses the activation's indices, so only its values are sent.
  costs.activation_gradient_bytes.clear();
  for (std::size_t i = 0; i < costs.output_bytes.size(); ++i)
    costs.activation_gradient_bytes.push_back(
        costs.activation_bytes[i] - index_bytes(channel, costs.output_bytes[i] / element));
}

}  // namespace plangrad::parallel
