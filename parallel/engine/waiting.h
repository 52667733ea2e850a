// Waiting: how long a computation waits for the other lane, and what a rank says when it gives up.
// Not here: what it waits for (mailbox.h, sum_book.h).
// Chapter 04.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/engine/message_lane.h"
#include "parallel/engine/row_run.h"

namespace plangrad::parallel {

using Bytes = std::shared_ptr<std::int64_t>;  ///< bytes sent; final once the ticket is done

/// A message, or work on a sum, that was handed to the other lane.
struct Issued {
  int cell = 0;  ///< in the row
  TicketPtr ticket = {};
  Bytes bytes = {};
  std::shared_ptr<const Issued> before = {};  ///< the message that it waits for in the lane
};

class Waiting {
 public:
  /// The arguments are kept by reference and must outlive it.
  Waiting(const RowRun& run, MessageLane& lane)
      : run_(run), transport_(run.engine.transport()), lane_(lane) {}

  /// Notes that the rank is at this cell, and tells the others.
  void reach(int cell);
  /// Tells the others that the rank computes, until it waits or reaches another cell.
  void compute();
  int cell() const { return cell_; }

  /// Waits for a message; first for the one that it depends on, so that an error names that one.
  /// throws: Error `rank 1: waited 60 s for 1g5>1 of rank 2; rank 2 was at 2F5v1`
  void wait(const Issued& message) const;
  /// Waits until one of the tickets is done; an error names `cell`.
  void wait_for_any(const std::vector<const Ticket*>& tickets, int cell) const;

  /// Waits for a message that no cell names.
  /// throws: Error `rank 1: waited 60 s for <what> of rank 0; rank 0 was at 2F5v1`
  void wait_for_word(const Ticket& ticket, const std::string& what, int peer) const;

 private:
  void tell(Work work) const;
  bool wait_patiently(const std::vector<const Ticket*>& tickets) const;
  [[noreturn]] void give_up(Clock::time_point start, const std::string& awaited, int peer) const;
  int awaited_rank(int cell) const;
  std::string place_of(int rank) const;
  bool is_in_plan(const Position& place, int rank) const;

  const RowRun& run_;
  Transport& transport_;
  MessageLane& lane_;
  int cell_ = 0;
};

}  // namespace plangrad::parallel
