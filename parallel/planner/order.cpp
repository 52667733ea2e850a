// What has begun can always end, as each microbatch has room on its way. Chapter 06.
#include "parallel/planner/order.h"

#include <array>
#include <tuple>

namespace plangrad::parallel {

int OrderTask::ranks() const { return *std::ranges::max_element(place) + 1; }

double OrderTask::most_of(int rank) const {
  return most.empty() ? PartialOrder::never : value_at(rank, most);
}

Plan OrderTask::without_cells() const {
  Plan plan;
  plan.stages = stages();
  plan.per_step = microbatches;
  plan.clip = clip;
  if (tied && stages() > 1) plan.tied = {0, stages() - 1};
  plan.rows.resize(ranks());
  return plan;
}

void check(const OrderTask& task) {
  constexpr int most_stages = OrderTask::most_stages, most_forwards = 1 << 16;
  PG_CHECK(task.stages() > 0 && task.stages() <= most_stages && task.microbatches > 0 &&
               task.microbatches <= most_forwards / task.stages(),
           counted(task.stages(), "stage"), " and ", counted(task.microbatches, "microbatch"),
           ": an order has at least 1 of each, and at most ", most_stages, " stages and ",
           most_forwards, " forwards");
  PG_CHECK(task.ranks() <= task.stages(), counted(task.stages(), "stage"), " on ",
           counted(task.ranks(), "rank"), ": every rank needs a stage");
  check(task.costs, task.without_cells());
  PG_CHECK(task.kept.size() == 1 || std::ssize(task.kept) == task.stages(), task.kept.size(),
           " values of what stages keep for ", counted(task.stages(), "stage"),
           ": give one, or one for each");
  PG_CHECK(task.most.size() <= 1 || std::ssize(task.most) == task.ranks(), task.most.size(),
           " values of what ranks may keep for ", counted(task.ranks(), "rank"),
           ": give one, or one for each");
  std::vector<double> least(task.ranks(), 0);
  for (int stage = 0; stage < task.stages(); ++stage)
    least[task.place[stage]] += task.kept_of(stage);
  for (int rank = 0; rank < task.ranks(); ++rank) {
    PG_CHECK(std::ranges::count(task.place, rank) > 0, "no stage lies on rank ", rank,
             "; ranks are counted from 0, and each needs one");
    PG_CHECK(least[rank] <= task.most_of(rank), "rank ", rank, " may keep ", task.most_of(rank),
             ", and a microbatch that passes its stages keeps ", least[rank],
             "; let it keep at least that");
  }
}

std::vector<Stream> streams_of(const OrderTask& task) {
  const Plan plan = task.without_cells();
  const int stages = task.stages();
  std::vector<Stream> all;
  // A cell's input comes from stage `from`, or is on its rank.
  auto add = [&](char letter, const Instruction& x, int input, int from, Value message) {
    Stream& added = all.emplace_back(Stream{letter, x.stage, task.place[x.stage], 0, input});
    added.seconds = duration(x, added.rank, plan, task.costs);
    if (from < 0 || from >= stages || task.place[from] == added.rank) return;
    // A gradient has the name of the output that it is of.
    const Instruction send{Op::send, std::min(from, x.stage), 0, -1, added.rank, message};
    added.delay = duration(send, task.place[from], plan, task.costs);
  };
  auto back = [&](int stage, Value part) {
    Instruction x = backward(stage, 0, 0);
    if (task.split) x.what = part;
    return x;
  };
  for (int s = 0; s < stages; ++s) add('F', forward(s, 0, 0), s - 1, s - 1, Value::activation);
  for (int s = 0; s < stages; ++s)
    add(task.split ? 'I' : 'B', back(s, Value::input_part),
        s + 1 < stages ? stages + s + 1 : stages - 1, s + 1, Value::activation_gradient);
  for (int s = 0; task.split && s < stages; ++s)
    add('W', back(s, Value::weight_part), stages + s, -1, Value::none);
  return all;
}

PartialOrder::PartialOrder(const OrderTask& task, const std::vector<Stream>& streams)
    : task_(&task),
      streams_(&streams),
      done_(streams.size(), 0),
      free_(task.ranks(), 0),
      end_(streams.size() * task.microbatches, 0) {}

/// Whether a forward leaves enough room on its rank: once those before it have ended, each
/// microbatch must be able to pass all of the rank's stages, since later ones end later.
bool PartialOrder::fits(const Stream& forward) const {
  const double most = task_->most_of(forward.rank);
  if (most == never) return true;
  std::vector<std::array<int, 3>> held;  // the rank's stages, with their cells that keep and free
  const int frees = static_cast<int>(streams_->size()) - task_->stages();
  int micro = done_[forward.stage];
  for (int stage = 0; stage < task_->stages(); ++stage) {
    if (task_->place[stage] != forward.rank) continue;
    held.push_back({stage, done_[stage] + (stage == forward.stage), done_[frees + stage]});
    micro = std::min(micro, held.back()[2]);
  }
  for (; micro <= done_[forward.stage]; ++micro) {
    double sum = 0;
    for (const auto& [stage, kept, freed] : held)
      sum += task_->kept_of(stage) * std::max(kept - std::max(freed, micro), kept <= micro ? 1 : 0);
    if (sum > most * (1 + 1e-9)) return false;
  }
  return true;
}

double PartialOrder::start(int stream) const {
  const Stream& cell = (*streams_)[stream];
  const int micro = done_[stream];
  if (micro == task_->microbatches || (cell.input >= 0 && done_[cell.input] <= micro)) return never;
  if (cell.letter == 'F' && !fits(cell)) return never;
  if (cell.input < 0) return free_[cell.rank];
  return std::max(free_[cell.rank], end_[cell.input * task_->microbatches + micro] + cell.delay);
}

void PartialOrder::add(int stream) {
  const Stream& cell = (*streams_)[stream];
  now_ = start(stream);
  free_[cell.rank] = end_[stream * task_->microbatches + done_[stream]++] = now_ + cell.seconds;
  sequence_.push_back(static_cast<std::uint16_t>(stream));
}

Plan PartialOrder::rows() const {
  Plan plan = task_->without_cells();
  std::vector<int> next(done_.size(), 0);
  for (const int stream : sequence_) {
    const Stream& cell = (*streams_)[stream];
    Instruction x = forward(cell.stage, next[stream]++, 0);
    if (cell.letter != 'F') x.op = Op::backward;
    if (cell.letter == 'I') x.what = Value::input_part;
    if (cell.letter == 'W') x.what = Value::weight_part;
    plan.rows[cell.rank].push_back(x);
  }
  return plan;
}

Plan list_order(const OrderTask& task, const std::string& letters, const std::vector<int>& ahead) {
  check(task);
  PG_CHECK(ahead.size() <= 1 || std::ssize(ahead) == task.ranks(), ahead.size(),
           " values of how far ranks run ahead for ", counted(task.ranks(), "rank"),
           ": give one, or one for each");
  const std::vector<Stream> streams = streams_of(task);
  const int all = static_cast<int>(streams.size());
  PartialOrder order(task, streams);
  auto start = [&](int i) {
    const Stream& each = streams[i];
    const bool is_limited = each.letter == 'F' && !ahead.empty();
    const int most = is_limited ? value_at(each.rank, ahead) : task.microbatches;
    const int under_way = is_limited ? order.done(i) - order.done(task.stages() + i) : 0;
    return under_way < most ? order.start(i) : PartialOrder::never;
  };
  while (!order.is_complete()) {
    double soonest = PartialOrder::never;
    for (int i = 0; i < all; ++i) soonest = std::min(soonest, start(i));
    // Sums of the same seconds can differ by a rounding.
    std::tuple<int, std::size_t, int, int, int> best{task.ranks(), 0, 0, 0, 0};
    for (int i = 0; i < all; ++i)
      if (const Stream& each = streams[i]; start(i) <= soonest * (1 + 1e-9))
        best =
            std::min(best, {each.rank, letters.find(each.letter), order.done(i), -each.stage, i});
    order.add(std::get<4>(best));
  }
  return order.rows();
}

std::vector<double> most_kept(const OrderTask& task, const Plan& plan) {
  std::vector<double> most(plan.ranks(), 0);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    double now = 0;
    for (const Instruction& x : plan.rows[rank]) {
      if (begins_pass(x)) now += task.kept_of(x.stage);
      if (adds_gradient(x)) now -= task.kept_of(x.stage);
      most[rank] = std::max(most[rank], now);
    }
  }
  return most;
}

}  // namespace plangrad::parallel
