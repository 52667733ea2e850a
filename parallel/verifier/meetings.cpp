// Looks at every reduction, norm and gather from the side of the group.
// Not here: that the members meet (pairing).
// Chapter 05.
#include "parallel/verifier/meetings.h"

#include "parallel/plan/lifetimes.h"
#include "parallel/verifier/place.h"

namespace paragrad::parallel {
namespace {

class Meetings {
 public:
  Meetings(const Plan& plan, const std::vector<Replay>& rows);
  void check(const Meeting& meeting) const;

 private:
  using Members = std::vector<int>;
  void check_reduction(const Meeting& meeting, const Members& members, const Place& at) const;
  void check_norm(const Meeting& meeting, const Members& members, const Place& at) const;
  void check_shards(const Members& members, const Place& at) const;

  const Plan& plan_;
  const std::vector<Replay>& rows_;
  const std::vector<Members> holders_;  // of each stage's weights
};

Meetings::Meetings(const Plan& plan, const std::vector<Replay>& rows)
    : plan_(plan), rows_(rows), holders_(holders(plan)) {}

void Meetings::check(const Meeting& meeting) const {
  const Members& members = plan_.groups[meeting.group];
  const Place at{plan_, members[0], meeting.cells[0]};
  const Instruction& x = at.instruction();
  if (x.what == Value::norm) return check_norm(meeting, members, at);
  if (x.what == Value::gradient_sum) check_reduction(meeting, members, at);
  if (plan_.sharded > 0) check_shards(members, at);
}

void Meetings::check_reduction(const Meeting& meeting, const Members& members,
                               const Place& at) const {
  const Instruction& x = at.instruction();
  std::vector<Sum> sums;
  for (std::size_t i = 0; i < members.size(); ++i)
    sums.push_back(rows_[members[i]].reduced(meeting.cells[i]));
  const std::string lacks = lacking(plan_, sums, x.stage, x.version);
  if (!lacks.empty()) refuse("sum", at, "the gradient lacks ", lacks);
}

/// Some member knows each stage's finished sum; of a sharded stage, all who hold shards of it do.
void Meetings::check_norm(const Meeting& meeting, const Members& members, const Place& at) const {
  std::vector<std::size_t> counted(plan_.stage_count());
  for (std::size_t i = 0; i < members.size(); ++i)
    for (int stage : rows_[members[i]].counted(meeting.cells[i])) ++counted[stage];
  for (int stage = 0; stage < plan_.stage_count(); ++stage)
    if (counted[stage] == 0 || (plan_.sharded > 0 && counted[stage] < holders_[stage].size()))
      refuse("norm", at, "the sum of stage ", stage, " is not finished in group ", list(members),
             " by then");
}

void Meetings::check_shards(const Members& members, const Place& at) const {
  const Members& holders = holders_[at.instruction().stage];
  if (members != holders)
    refuse("shape", at, "shards of this stage lie on ranks ", list(holders), ", but the group is ",
           list(members));
}

}  // namespace

void check_meetings(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows) {
  const Meetings meetings(plan, rows);
  for (const Meeting& meeting : pairing.meetings) meetings.check(meeting);
}

}  // namespace paragrad::parallel
