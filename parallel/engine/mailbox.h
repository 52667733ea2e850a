// Mailbox: a rank's values by name: those that are here, those that arrive, those that leave; and
// the messages that carry them, which it hands to the other lane in typed queues.
// Not here: gradient sums until they are sent (sum_book.h), and bytes on their way (transports/).
// Chapters 04 and 05.
#pragma once

#include "parallel/engine/row_run.h"

namespace plangrad::parallel {

/// A value and the message that brings it, or the work that makes it final.
struct Arriving {
  Tensor value;
  Issued by = {};     ///< without a ticket: the value is here
  Tensor bytes = {};  ///< the encoded value, if other ranks get the same copy of it
};

class Mailbox {
 public:
  /// The arguments are kept by reference and must outlive it.
  Mailbox(RowRun& run, Waiting& waiting, MessageLane& lane)
      : run_(run), waiting_(waiting), lane_(lane), channel_(run.engine.channel()) {}

  // ---- values ----
  /// Stores a value that was computed here.
  void put(const Name& name, const Tensor& value) { here_[name] = value; }
  /// Removes and returns a value, which may still be on its way.
  /// throws: Error if there is none
  Arriving take(const Name& name);
  /// Removes a value, waits for it and returns it.
  Tensor take_value(const Name& name);
  /// Removes and returns the first arriving value from name `begin` to before `end`.
  Arriving take_first(const Name& begin, const Name& end);
  /// The value that is on its way under this name; null if there is none.
  const Arriving* arriving(const Name& name) const;
  /// Waits for the value if it is on its way, and removes it.
  void wait_for(const Name& name);

  // ---- messages ----
  /// Sends a value once the work that makes it final is done.
  void send(const Instruction& x, const Arriving& value);
  /// Posts the receive of a message into `value`. An encoded message goes to `bytes`, and `decode`
  /// makes the value of it; `keep_bytes` keeps them for ranks that it is passed on to.
  void receive(const Instruction& x, const Tensor& value, const Tensor& bytes = {},
               std::function<void()> decode = {}, bool keep_bytes = false);
  /// Receives an activation or its gradient, which the channel's codec may encode.
  void receive_output(const Instruction& x, const Tensor& value);
  /// Runs this member's part of a group's work, once `before` is done and begin() returns true, if
  /// they are given. `arrives`: the value that the work brings, under the instruction's name.
  Issued meet(const Instruction& x, std::shared_ptr<GroupRun> run, const Tensor& arrives = {},
              std::function<bool()> begin = {}, const Issued& before = {});
  /// Adds a value that is here, or arrives, over a group, in place; it then arrives once more.
  /// Nothing may read the value until then.
  void reduce(const Instruction& x);
  /// Does work on the other lane, in a queue, once `before` is done. Without `bytes` it leaves no
  /// record, as it is no message.
  Issued work(Queue queue, const Issued& before, std::function<void()> work, Bytes bytes = nullptr);

  /// Waits until the weights have been sent to all their receivers, so that they can be freed.
  void wait_for_readers(const Made& weights);
  /// Waits for all messages in flight, and records them.
  void finish();
  /// Records the oldest messages as far as they are done.
  void forget_finished();

 private:
  friend struct TableSizes;  // of tests
  Issued post(Queue queue, const Issued& before, MessageLane::Task task, Bytes bytes);
  bool is_encoded(const Instruction& x) const;
  Tensor room_for_code(const Instruction& x, const Tensor& value) const;
  void bound_sends(int peer);

  RowRun& run_;
  Waiting& waiting_;
  MessageLane& lane_;
  ChannelCodec* channel_;  // of activations and their gradients; null: no codec
  std::map<Name, Tensor> here_;
  std::map<Name, Arriving> arriving_;
  std::map<int, std::deque<Issued>> leaving_;    // by peer; the oldest first
  std::map<Made, std::vector<Issued>> reading_;  // sends of the weights
  std::deque<Issued> issued_;                    // messages, in the order of the row
};

}  // namespace plangrad::parallel
