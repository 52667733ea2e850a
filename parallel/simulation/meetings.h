// Meetings: the sums and gathers of groups. Each is a list of exchanges for each member
// (collectives/collective.h), whose messages travel one by one, as a run sends them.
// Not here: how links are shared (links.h), and what waits for a meeting (simulate.cpp).
// Chapters 04 and 06.
#pragma once

#include "parallel/simulation/costs.h"
#include "parallel/simulation/links.h"

namespace plangrad::parallel {

/// The sum or gather of an instruction as one member of its group runs it.
/// throws: Error if the plan is sharded, and the reduction has no part for each member
Collective list_of(const Instruction& x, const Plan& plan, const Costs& costs, int member);

/// What a rank sends in an instruction: `sends` messages, each 1 / chunks of the value, in
/// `rounds`, of which each waits for the one before: those of the list, of at most pieces_in_flight
/// sends.
struct Sent {
  std::int64_t sends = 0, chunks = 1, rounds = 1;
};
Sent sent_by(const Instruction& instruction, int rank, const Plan& plan, const Costs& costs);

/// How long a sum or gather takes while nothing else uses its links.
double meeting_seconds(const Instruction& x, const Plan& plan, const Costs& costs);

/// The lists of a group's members, side by side.
class MeetingRun {
 public:
  /// `number`: of its messages. The plan and the traffic must outlive it.
  MeetingRun(const Instruction& x, const Plan& plan, const Costs& costs, Traffic& traffic,
             int number);

  void begin(double now);
  /// One of its messages has arrived.
  void arrive(const Traffic::Arrival& message);
  bool is_over() const { return under_way_ == 0; }

 private:
  struct Send {
    int to;
    std::int64_t bytes;
    std::size_t after;  // how many receives bring what it sends
  };
  struct Member {
    std::vector<Send> sends = {};
    std::vector<int> receives = {};  // senders
    std::vector<int> arrived = {};   // by sender: messages that are not taken
    std::size_t posted = 0, taken = 0;
    int under_way = 0;
  };

  static void add(Member& member, const Collective& list, std::int64_t bytes, std::int64_t piece);
  std::size_t place(int rank) const;
  void post(std::size_t from, double now);
  static void take(Member& member, std::size_t from);

  const std::vector<int>& ranks_;
  Traffic& traffic_;
  const int number_;
  std::vector<Member> members_;
  int under_way_ = 0;
};

}  // namespace plangrad::parallel
