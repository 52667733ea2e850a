// Collective run: runs one member's list on a tensor without ever waiting, so that one thread can
// run many at a time. Not here: the lists (collective.h), and what encodes pieces
// (codecs/message_codec.h). Chapters 04 and 10.
#pragma once

#include "autograd/tensor.h"
#include "parallel/collectives/collective.h"
#include "parallel/transports/transport.h"

namespace plangrad::parallel {

using namespace autograd;

/// One member's part of the work that a group does together.
class GroupRun {
 public:
  virtual ~GroupRun() = default;
  /// Advances as far as possible without waiting; true once this member's part is complete.
  /// throws: Error if members disagree on the size
  virtual bool advance(Transport& transport) = 0;
  /// Tells a run that has not begun that its values are final after `mark`.
  virtual void follow(const Mark& /*mark*/) {}
  virtual std::int64_t bytes_sent() const = 0;
  /// The rank whose message, or whose receive, this run waits for; -1: none, or it can't be told.
  virtual int waits_for() const { return -1; }
};

/// Writes the pieces of a collective in fewer bytes, and reads them back: one rank's codec of one
/// buffer. One thread at a time uses it.
class PieceCodec {
 public:
  virtual ~PieceCodec() = default;
  /// Bytes of the encoded elements of a range of the buffer.
  virtual std::int64_t encoded_bytes(Range range) const = 0;
  /// Encodes `values`, a range of the sum that makes `version`, into `bytes`. With `take_back`,
  /// `values` becomes what decode() makes of the bytes, as on the receivers.
  /// throws: Error if a value is not finite
  virtual void encode(const Tensor& values, Range range, int version, bool take_back,
                      const Tensor& bytes) = 0;
  /// Reads `values`, a range of the buffer, back from `bytes`.
  virtual void decode(const Tensor& bytes, Range range, const Tensor& values) const = 0;
};

/// Runs a list. Chunks are cut into pieces, so that a piece is sent on while the next one arrives.
/// At most `pieces_in_flight` are in flight for each member that this one receives from, and as
/// many to all others together: with more, all else waits behind a slow link's long queue.
///   bytes sent by each member: all-reduce by scatter or ring 2 (N-1)/N of the tensor's bytes,
///                              reduce-scatter or all-gather half of that
///   scratch:                   pieces_in_flight per member received from, counted as
///                              communication; with a codec also the codes that are sent, final
///                              ones to the end
/// With a codec, pieces travel encoded, and sums are made of decoded values. A larger piece is
/// encoded as pieces of default_piece, so that the bits are those of any transport. Each member
/// encodes a piece once: a copy of it is sent on without being encoded again, and its sender takes
/// the decoded values, too. So if all members are to end with the same values, they have the same
/// bits.
class CollectiveRun : public GroupRun {
 public:
  /// The encoding of the sum that makes `version`.
  struct Encoding {
    PieceCodec* codec = nullptr;  ///< must outlive the run; null: pieces are not encoded
    int version = 0;
  };

  /// Member i of the collective is rank ranks[i]. `data` is changed in place; nothing else may
  /// touch it until advance() has returned true. A channel carries one collective at a time.
  CollectiveRun(const Collective& collective, Tensor data, std::vector<int> ranks, int channel,
                std::int64_t piece_bytes = default_piece, Encoding encoding = {nullptr, 0});

  bool advance(Transport& transport) override;
  std::int64_t bytes_sent() const override { return bytes_sent_; }
  int waits_for() const override;

 private:
  /// A piece, and the earlier pieces of the same values that it waits for.
  struct Part : Piece {
    int changed_by = -1;     ///< the part that changes the values last before this one; -1: none
    int sends_before = 0;    ///< sends of the values that are not over; a receive waits for them
    int waited_for_by = -1;  ///< the receive that waits for this send
    bool over = false;
    bool final = true;  ///< all members get these values: no copy replaces them later

    bool is_sum() const {
      return action != Exchange::Action::send && action != Exchange::Action::copy;
    }
  };
  struct Underway {
    int part = 0;
    Tensor target;  ///< where an arriving piece is put: in place, or scratch
    std::unique_ptr<Request> request;
  };
  /// All sends, or all receives, in the order of the list.
  struct Way {
    std::vector<int> parts;
    std::size_t next = 0,
                most = pieces_in_flight;  ///< the part to begin next; how many may be in flight
    std::vector<Underway> underway;       ///< the oldest first
    bool is_over() const { return underway.empty() && next == parts.size(); }
  };

  void set_order();
  void hold_back(int receive, const std::vector<int>& sends);
  bool may_begin(const Part& part) const;
  bool post(Way& way, Transport& transport);
  bool take_arrived();
  void take(const Underway& arrived);
  bool end_send(Underway& sent);
  Tensor message_of(const Part& part);
  Tensor target_of(const Part& part);
  template <class Visit>
  std::int64_t for_codes(Range range, Visit visit) const;
  void decode(const Tensor& bytes, Range range, const Tensor& values) const;
  Tensor values(Range range) const;
  Tensor room_for(Range range);
  Tensor scratch(std::int64_t elements, DType dtype);
  void put_back(const Tensor& scratch) { free_.push_back(scratch.storage()); }

  Tensor data_;
  std::vector<int> ranks_;
  int channel_;
  Encoding encoding_;
  std::map<std::int64_t, Tensor> encoded_;  // pieces, by their first element
  std::vector<Part> parts_;
  Way sends_, receives_;
  std::vector<std::shared_ptr<Storage>> free_;  // scratch
  Tensor carried_;
  std::int64_t bytes_sent_ = 0;
};

/// A group's sum or gather by the transport's own collective.
///   bytes sent by all members: counted as for a list, whatever the transport does
class TransportRun : public GroupRun {
 public:
  /// `data` is changed in place, as by CollectiveRun.
  TransportRun(Joint what, Tensor data, std::vector<int> ranks, int channel)
      : what_(what), data_(data.detach()), ranks_(std::move(ranks)), channel_(channel) {}

  bool advance(Transport& transport) override;
  void follow(const Mark& mark) override { after_ = mark; }
  std::int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  std::int64_t bytes_as_by_list(int rank) const;

  Joint what_;
  Tensor data_;
  std::vector<int> ranks_;
  int channel_;
  Mark after_;
  std::int64_t bytes_sent_ = 0;
  std::unique_ptr<Request> request_;
};

/// Advances the run until it is complete.
/// throws: Error if that takes longer than `timeout` seconds or another rank has failed
void finish(GroupRun& run, Transport& transport, double timeout);

}  // namespace plangrad::parallel
