// BitChoice: chooses the bits of an adaptive codec's layers every few updates.
// Not here: by what rule (codecs/). Chapter 10.
#pragma once

#include "parallel/codecs/codec.h"
#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

class BitChoice : public AskingObserver<Bits, Nothing> {
 public:
  explicit BitChoice(const CodecSpec& codec)
      : every_(codec.kind().chooses_bits ? codec.period : 0) {}
  const char* name() const override { return "bits"; }
  bool serves(const CodecKind& codec) const override { return codec.chooses_bits; }
  Border next_border(int done) const override {
    return {next_multiple(every_, done), "choice of bits"};
  }
  void resume(const Checkpoint& checkpoint, SessionRank& rank) override {
    if (every_ > 0 && checkpoint.run().contains("bits"))
      carry_out(rank, of_run(checkpoint, "bits", Bits()));
  }
  void ready(Lead& lead) override {
    if (const Bits& bits = lead.engine().bits(); !bits.empty()) lead.summary()["bits"] = bits;
  }
  void plan_ended(Lead& lead, const PlanEnd& plan) override {
    if (!is_due(every_, plan.before, plan.done)) return;
    const bool is_first = lead.engine().bits().empty();
    choose_bits(lead, plan);
    if (is_first) lead.record_again("choice of bits");
  }

 private:
  // [snippet choose_bits]
  /// Chooses bits by what the ranks measured in the last update.
  void choose_bits(Lead& lead, const PlanEnd& plan) {
    std::vector<BitOptions> measured;
    for (const RunResult& result : plan.results) measured.push_back(result.bit_options);
    const Bits bits = plan.plan.codec.kind().chooses_bits(measured);
    ask(lead, bits);
    lead.note("bits", bits);
    lead.summary()["bits"] = bits;
  }
  /// On every rank.
  Nothing carry_out(SessionRank& rank, const Bits& bits) override {
    rank.engine().set_bits(bits);
    rank.description()["bits"] = bits;
    return {};
  }
  // [end snippet]

  const int every_;  // updates; 0: never
};

}  // namespace plangrad::parallel
