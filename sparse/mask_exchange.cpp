// Sends masks packed. Stores each draw in a checkpoint as the indices of its kept elements, the
// oldest draw as number 0: "draw-0/h.0.attn.c_attn.weight". Chapter 11.
#include "sparse/mask_exchange.h"

#include <algorithm>
#include <functional>

#include "parallel/plan/lifetimes.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/pack.h"

namespace plangrad::sparse {

namespace {

std::string draw_name(std::size_t draw) { return text("draw-", draw); }

/// The parameters of `list` that a draw has, with the offsets of its concatenated indices.
ParameterList drawn_list(const ParameterList& list, const Masks& draw) {
  ParameterList drawn;
  for (const Parameter& p : list)
    if (const auto mask = draw.find(p.name); mask != draw.end())
      drawn.add(p.name, {static_cast<std::int64_t>(mask->second.size())}, Init::constant(0));
  return drawn;
}

Tensor on_device(const ParameterList& drawn, const Masks& draw, const DevicePtr& device) {
  Index all;
  for (const Parameter& p : drawn)
    all.insert(all.end(), draw.at(p.name).begin(), draw.at(p.name).end());
  CategoryScope category(*device, Category::workspace);
  return from_host(all, {drawn.numel()}, device);
}

}  // namespace

SumCounts sum_over(Transport& transport, double timeout) {
  return [&transport, timeout](const std::vector<std::int64_t>& own) {
    std::vector<std::int64_t> total(own.size(), 0);
    for (const std::string& one : all_gather_bytes(transport, pack(own), timeout)) {
      const auto counts = unpack<std::vector<std::int64_t>>(one);
      PG_CHECK(counts.size() == total.size(), "ranks count different parameters");
      std::ranges::transform(total, counts, total.begin(), std::plus<>());
    }
    return total;
  };
}

Masks all_masks(Transport& transport, const Masks& own, double timeout) {
  Masks all;
  for (const std::string& one : all_gather_bytes(transport, pack(own), timeout))
    all.merge(unpack<Masks>(one));
  return all;
}

void write_draws(Engine& engine, const Plan& plan, const std::deque<Masks>& draws,
                 const WriteFile& write_file) {
  if (draws.empty()) return;
  const auto ranks = holders(plan);
  AtWork saving(engine.transport(), Work::saving);
  for (auto& [stage, store] : engine.stores()) {
    const ParameterList drawn = drawn_list(store.form().parameters(), draws.front());
    if (ranks.at(stage).front() != engine.transport().rank() || drawn.size() == 0) continue;
    FlatBuffers buffers;
    for (std::size_t i = 0; i < draws.size(); ++i)
      buffers.emplace_back(draw_name(i), on_device(drawn, draws[i], engine.device()));
    write_file(text("draws_", stage), drawn, buffers);
  }
}

std::deque<Masks> read_draws(const Checkpoint& checkpoint, const ParameterList& whole,
                             double pruned, const DevicePtr& device) {
  std::deque<Masks> draws;
  for (std::size_t i = 0; checkpoint.has_state(draw_name(i)); ++i) {
    Masks draw;
    for (const Parameter& p : whole) {
      Parameter kept = p;
      kept.shape = {kept_count(p.shape.numel(), pruned)};
      const Tensor index = workspace(kept.shape, DType::i32, device);
      if (!checkpoint.load_state_if_any(draw_name(i), kept, index)) continue;
      const std::vector<double> numbers = to_host(index);
      draw[p.name].assign(numbers.begin(), numbers.end());
    }
    draws.push_back(draw);
  }
  return draws;
}

}  // namespace plangrad::sparse
