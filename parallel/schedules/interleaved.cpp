// Interleaved 1F1B: a rank holds several stages that are not neighbours, so a pipeline of D ranks
// fills in the time of D small stages.
// Chapter 06; Narayanan et al. 2021, "Efficient Large-Scale Language Model Training", section 2.2.
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

// [snippet interleaved]
/// Microbatches go in rounds of D, or a few more: all of a round through a rank's first stage, then
/// all through its second one, and so on; backwards likewise, from its last stage to its first.
static Plan interleaved(const Layout& layout) {
  const int depth = layout.depth(), chunks = layout.chunks;
  const std::int64_t count = layout.microbatches, rounds = std::max<std::int64_t>(1, count / depth);
  const int longest = static_cast<int>((count + rounds - 1) / rounds);
  return flushed_plan(layout, [&](Row& row, int rank, int step, const std::vector<int>& micros) {
    const std::vector<int> stages = layout.stages_of(rank);
    const int ahead = (chunks > 1 ? 2 : 1) * (depth - 1 - rank) + (chunks - 1) * longest;
    Row forwards, backwards;
    for (int round = 0; round < rounds; ++round)
      for (int chunk = 0; chunk < chunks; ++chunk)
        for (auto i = count * round / rounds; i < count * (round + 1) / rounds; ++i) {
          forwards.push_back(forward(stages[chunk], micros[i], step));
          backwards.push_back(backward(stages[chunks - 1 - chunk], micros[i], step));
        }
    append_in_turn(row, forwards, backwards, ahead);
  });
}
// [end snippet]

extern const Schedule interleaved_schedule{.name = "interleaved",
                                           .make = interleaved,
                                           .chunks = 2,
                                           .placement = Placement::loop,
                                           .fields = {&chunks_field}};

}  // namespace plangrad::parallel
