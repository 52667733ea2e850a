// A reduce of a value that is no gradient sum: an activation that is here, or still on its way.
// Not here: gradient sums, which all plans with replicas reduce (schedules_grid_test).
#include "autograd/cpu/cpu_backend.h"
#include "parallel/engine/mailbox.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/parallel/support/small_run.h"

namespace plangrad::tests {

TEST_CASE("reduce: an activation is added over its group, and arrives under its name", "[engine]") {
  const Training training(nn::gpt(small_gpt()), 1);
  Layout layout{.steps = 1};
  layout.width = 2;
  layout.clip = training.clip > 0;
  layout.tied = !training.shared.stages.empty();
  const VerifiedPlan plan = verify(make_plan("data", layout));
  REQUIRE(plan.plan().groups.at(0) == std::vector<int>{0, 1});

  run_ranks(2, [&](Transport& transport) {
    const int rank = transport.rank(), other = 1 - rank;
    const DevicePtr device = cpu_device();
    Engine engine(training, transport, device, {.timeout = 20});
    RowRun run(engine, plan, 1, 1);
    MessageLane lane(transport);
    Waiting waiting(run, lane);
    Mailbox mailbox(run, waiting, lane);
    auto name = [](int micro) { return Name{Value::activation, 0, micro}; };
    auto cell = [](Op op, int micro, int peer) {
      return Instruction{
          .op = op, .stage = 0, .micro = micro, .peer = peer, .what = Value::activation};
    };

    const Tensor own = from_host(std::vector<float>{1.0f + rank, 10, -2.5f * rank}, {3}, device);
    mailbox.put(name(7), own);
    mailbox.reduce(cell(Op::reduce, 7, 0));
    const Tensor sum = mailbox.take_value(name(7));
    CHECK(to_host(sum) == Numbers{3, 20, -2.5});
    CHECK(sum.raw() == own.raw());  // in place

    // The other rank's value, which may still be on its way: 0 from rank 1, 1 from rank 0.
    mailbox.send(cell(Op::send, rank, other),
                 {from_host(std::vector<float>{4.0f * rank}, {1}, device)});
    mailbox.receive(cell(Op::recv, other, other), empty({1}, DType::f32, device));
    mailbox.reduce(cell(Op::reduce, other, 0));
    CHECK(to_host(mailbox.take_value(name(other))) == Numbers{4});
    CHECK_THROWS_WITH(mailbox.take(name(other)), Contains("does not have the value"));
  });
}

}  // namespace plangrad::tests
