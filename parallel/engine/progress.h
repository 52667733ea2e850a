// Progress: what rank 0 hears of an endless plan while it runs, and how far it lets the ranks go.
// In the body no rank waits for another one because of it, unless rank 0 is so late that the bodies
// it has granted are used up.
// Not here: what rank 0 makes of it (session_lead.cpp). Chapter 07.
#pragma once

#include "parallel/engine/row_run.h"

namespace plangrad::parallel {

/// All ranks must leave the body after the same repetition, and they are not at the same one. So a
/// rank begins only bodies that rank 0 has granted; the last grant says that it is the last.
class Progress {
 public:
  /// The arguments are kept by reference and must outlive it.
  Progress(RowRun& run, Waiting& waiting, MessageLane& lane, const Course& course)
      : run_(run), waiting_(waiting), lane_(lane), course_(course) {}

  /// All ranks call it before their first cell.
  void begin();
  /// Reports, and learns how far to go; may make run.bodies smaller. Each rank calls it whenever a
  /// body has ended, with the number of bodies that it has run.
  void pass_bar(int bodies);
  /// Waits for the messages that other ranks have still to send, at the row's end.
  void finish();

 private:
  friend struct TableSizes;  // of tests
  struct Grant {
    int bodies = 0;
    bool is_last = false;
  };
  /// A message on its way; its bytes are there once the ticket is done.
  struct Word {
    TicketPtr ticket;
    std::shared_ptr<std::string> bytes;
  };

  bool leads() const { return run_.rank == 0; }
  Grant grant_from(int bodies) const;
  RunResult taken_result();
  void expect_reports();
  void hear();
  void grant_more(int bodies);
  void read_grant();
  void send(Queue queue, int peer, std::string bytes);
  Word receive(Queue queue, int peer);

  RowRun& run_;
  Waiting& waiting_;
  MessageLane& lane_;
  const Course& course_;
  int ahead_ = 0;
  Grant grant_;
  Word next_grant_;                              // on other ranks, until the last one is here
  std::map<int, std::deque<Word>> reports_;      // on rank 0: those that are expected, by rank
  int expected_ = 0;                             // how many of each rank, up to now
  std::deque<RunResult> own_;                    // on rank 0: reports that wait for the others'
  std::vector<std::pair<int, TicketPtr>> sent_;  // by the rank that takes it
  bool goes_on_ = true;
};

}  // namespace plangrad::parallel
