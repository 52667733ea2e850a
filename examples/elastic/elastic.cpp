// Losses are counted in updates, so that a lesson has the same course each time it is given. Ranks
// keep the numbers that they had when the run began; each session counts those that are left.
// Chapter 15.
#include "examples/elastic/elastic.h"

#include <iostream>

#include "examples/programs/plan_flags.h"
#include "examples/programs/program.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/observer.h"

namespace plangrad::examples {

using nlohmann::json;

namespace {

PlannedLoss parse_loss(const std::string& word) {
  constexpr int most = std::numeric_limits<int>::max();
  const Words sides = parallel::split(word, '@');
  PG_CHECK(sides.size() == 2, "no @, or several");
  const Words updates = parallel::split(sides[1], '-');
  PG_CHECK(updates.size() <= 2, "too long");
  PlannedLoss loss{parallel::read_number(sides[0], 0, most),
                   parallel::read_number(updates[0], 1, most)};
  if (updates.size() == 2) loss.back = parallel::read_number(updates[1], loss.update, most);
  return loss;
}

/// throws: Error if a rank is to be lost that is already lost and not yet back
void check_order(std::vector<PlannedLoss> losses) {
  std::ranges::sort(losses, {}, [](const PlannedLoss& x) { return std::pair(x.rank, x.update); });
  const auto gone = [](const PlannedLoss& a, const PlannedLoss& b) {
    return a.rank == b.rank && (a.back == 0 || a.back >= b.update);
  };
  const auto found = std::ranges::adjacent_find(losses, gone);
  PG_CHECK(found == losses.end(), "--lose: in update ", std::next(found)->update, " rank ",
           found->rank, " is still lost since update ", found->update,
           found->back > 0 ? text("; it is back after update ", found->back) : std::string());
}

}  // namespace

std::vector<PlannedLoss> parse_losses(const std::string& words) {
  std::vector<PlannedLoss> losses;
  if (words.empty()) return losses;
  for (const std::string& one : parallel::split(words, ',')) try {
      losses.push_back(parse_loss(one));
    } catch (const autograd::Error&) {
      throw autograd::Error(text("--lose ", words, ": expected RANK@UPDATE or RANK@UPDATE-BACK, ",
                                 "as in 2@8,0@12-20; got \"", one, '"'));
    }
  check_order(losses);
  return losses;
}

std::string print(const std::vector<PlannedLoss>& losses) {
  std::string all;
  for (const auto& [rank, update, back] : losses)
    all += text(all.empty() ? "" : ",", rank, '@', update, back > 0 ? text('-', back) : "");
  return all;
}

parallel::Prolong losing(const PlannedLoss& loss, PlantedLoss& transport,
                         parallel::Prolong before) {
  return [loss, &transport, before](const parallel::Plan& plan, const parallel::Instruction& x,
                                    auto begun) {
    const int made = x.micro >= 0 ? plan.made_by(x.micro) : x.version;
    if (plan.steps > 0 && made >= loss.update) transport.lose();
    return before && before(plan, x, begun);
  };
}

/// The microbatches of each of `width` replicas: as many in all as before, if they can be dealt
/// out, else the most that divide the batch.
static int microbatches_for(int width, const parallel::Layout& before, int batch) {
  int each = (before.per_step() + width - 1) / width;
  while (each > 1 && batch % (each * width) != 0) --each;
  return each;
}

// [snippet layouts_for]
std::vector<parallel::PlanSpec> layouts_for(int ranks, const json& flags) {
  std::vector<parallel::PlanSpec> found;
  const parallel::PlanSpec whole = saved_spec(flags);
  parallel::Layout own = with_defaults(whole.behaviour(), whole.layout);
  if (whole.cyclic()) own.chunks = 1;  // its ranks visit the stages, whose number is theirs
  auto add = [&](int depth, int width) {
    parallel::PlanSpec request = whole;
    parallel::Layout& layout = request.layout;
    layout.stages = depth * own.chunks / own.copies();
    if (layout.stages != own.stages) layout.cuts.clear(), request.given.erase("cuts");
    if (whole.gives("microbatches")) {
      layout.width = width;
      layout.microbatches = microbatches_for(width, whole.layout, flags.at("--batch"));
    }
    if (depth == 1) layout.channel = {};
    if (width * own.copies() == 1) {
      layout.zero = 0;
      // The sum of a tensor that stages share still leaves its rank.
      if (depth > 1 && !layout.codec.is_none()) found.push_back(request);
      layout.codec = {};
    }
    found.push_back(request);
  };
  for (int fewer = std::min(own.width - 1, ranks); fewer >= 1; --fewer) add(own.depth(), fewer);
  for (int fewer = std::min(own.depth() - 1, ranks); fewer >= 1; --fewer) add(fewer, 1);
  return found;
}
// [end snippet]

std::string value_of(const Words& words, const std::string& name) {
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(name + '=')) value = words[i].substr(name.size() + 1);
    if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
  }
  return value;
}

void remove_flag(Words& words, const std::string& name, bool has_value) {
  Words others;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == name)
      i += has_value ? 1 : 0;
    else if (!words[i].starts_with(name + '='))
      others.push_back(words[i]);
  words = others;
}

void continue_run(Words& words, const std::filesystem::path& run) {
  for (const char* flag : {"--resume", "--at", "--from", "--plan-from", "--row", "--reduction",
                           "--ranks-per-host", "--pretend-compute", "--pretend-link"})
    remove_flag(words, flag);  // the checkpoint has those that still fit
  words.push_back("--resume=" + run.string());
}

void set_layout(Words& words, const parallel::PlanSpec& layout) {
  remove_flag(words, "--ranks");
  for (const parallel::SpecField* field : parallel::spec_fields())
    if (!field->of_plans)
      remove_flag(words, field->flag_name(), field->kind != parallel::Kind::yes);
  std::ranges::copy(words_of(layout), std::back_inserter(words));
}

std::string with_layout(const parallel::PlanSpec& layout, const parallel::PlanSpec& whole) {
  const Words words = words_of(layout);
  std::string all = ", with", gone;
  for (const std::string& word : words) all += ' ' + word;
  for (const std::string& word : words_of(whole))
    if (std::ranges::count(words, word) == 0) gone += ' ' + word;
  return all + (gone.empty() ? "" : ", instead of" + gone);
}

namespace {

class ElasticRun {
 public:
  ElasticRun(const Words& words, const Session& session, const RanksLost& first)
      : words_(words), session_(session), flags_(first.flags), losses_(first.planned) {
    if (first.first > 0) continue_run(words_, value_of(words_, "--resume"));
    if (first.first > 0) words_.push_back(text("--at=", first.first));
    first_ = first.first;
    for (int rank = 0; rank < first.ranks; ++rank) here_.push_back(rank);
    seats_ = here_;
    for (const char* flag : {"--lose", "--out"}) remove_flag(words_, flag);
    lose(first);
  }

  int run() {
    for (;;) try {
        const int status = session();
        if (status != 0 || segment_ == 0) {
          std::cout << text("elastic: ranks lost: ", times_, "; updates done again: ", repeated_,
                            '\n');
          return status;
        }
        join();
      } catch (const RanksLost& lost) {
        lose(lost);
      }
  }

 private:
  void lose(const RanksLost& lost);
  void join();
  int session();
  int next_border() const;
  bool has_saved() const { return saved_ > first_; }
  Words words_for(const parallel::PlanSpec& layout) const;

  Words words_;  // the user's
  const Session& session_;
  const json flags_;  // of the whole run's layout
  std::vector<PlannedLoss> losses_;
  std::vector<int> here_;    // ranks that are not lost
  std::vector<int> seats_;   // the rank that each of the session's ranks is
  std::map<int, int> away_;  // ranks that come back, and after which update
  std::filesystem::path out_;
  int first_ = 0, saved_ = 0, segment_ = 0;  // where the session stops; 0: at the run's end
  int times_ = 0, repeated_ = 0, number_ = 0;
  Words news_;  // that no checkpoint's metrics have yet
};

/// Takes the lost ranks off, and notes what the others go on from.
void ElasticRun::lose(const RanksLost& lost) {
  out_ = lost.out;
  if (lost.saved > saved_) news_.clear();  // the metrics have it
  saved_ = std::max(saved_, lost.saved);
  std::string names;
  int update = 0;
  for (const PlannedLoss& loss : lost.lost) {
    const int rank = seats_.at(loss.rank);
    std::erase(here_, rank);
    if (loss.back > 0) away_[rank] = loss.back;
    std::erase_if(losses_, [&](const PlannedLoss& each) {
      return each.rank == rank && each.update <= loss.update;
    });
    names += text(names.empty() ? "rank " : " and rank ", rank);
    update = std::max(update, loss.update);
  }
  const int again = update - 1 - saved_;
  repeated_ += again;
  times_ += static_cast<int>(lost.lost.size());
  news_.push_back(text(names, lost.lost.size() == 1 ? " is" : " are", " lost in update ", update,
                       "; the run goes on after update ", saved_, ", ", counted(again, "update"),
                       again == 1 ? " is done again" : " are done again"));
  tell_lines("", lost.what());
}

/// Lets the ranks in again that are back by the border at which the session has stopped.
void ElasticRun::join() {
  saved_ = segment_;
  news_.clear();
  std::erase_if(away_, [&](const auto& away) {
    if (away.second > saved_) return false;
    news_.push_back(text("rank ", away.first, " is back after update ", saved_));
    here_.push_back(away.first);
    return true;
  });
  std::ranges::sort(here_);
}

/// The first border after which a rank is back: an update after which the run drains anyway, for a
/// validation or a save. 0: the run ends before.
int ElasticRun::next_border() const {
  int border = std::numeric_limits<int>::max();
  for (const auto& [rank, back] : away_) {
    const int earliest = std::max(back, saved_ + 1);
    int own = earliest;
    for (const char* every : {"--save-every", "--evaluate-every"})
      if (const int n = flags_.value(every, 0); n > 0) {
        const int next = parallel::next_multiple(n, earliest - 1);
        own = own == earliest ? next : std::min(own, next);
      }
    border = std::min(border, own);
  }
  return border < flags_.value("--steps", 0) ? border : 0;
}

Words ElasticRun::words_for(const parallel::PlanSpec& layout) const {
  Words words = words_;
  if (has_saved()) continue_run(words, out_);
  words.push_back("--out=" + out_.string());
  set_layout(words, layout);
  if (segment_ > 0) words.push_back(text("--stop-after=", segment_ - saved_));
  std::vector<PlannedLoss> losses;
  for (const PlannedLoss& loss : losses_)
    if (const auto seat = std::ranges::find(here_, loss.rank); seat != here_.end())
      losses.push_back({static_cast<int>(seat - here_.begin()), loss.update, loss.back});
  if (!losses.empty()) words.push_back("--lose=" + print(losses));
  return words;
}

/// Runs a session with the first layout that the ranks which are here can run.
int ElasticRun::session() {
  const int ranks = static_cast<int>(here_.size());
  PG_CHECK(!here_.empty(), "no rank is left; ",
           has_saved() ? text("continue with --resume ", out_.string())
                       : "nothing was saved, for which there is --save-every");
  segment_ = next_border();
  seats_ = here_;
  ++number_;
  std::string why;
  std::vector<parallel::PlanSpec> layouts = layouts_for(ranks, flags_);
  layouts.insert(layouts.begin(), saved_spec(flags_));
  for (const parallel::PlanSpec& layout : layouts) try {
      Attempt attempt{number_, ranks, segment_ > 0, news_};
      if (attempt.news.empty()) attempt.news.push_back("a segment begins");
      attempt.news.back() += text("; ", ranks, ranks == 1 ? " rank is" : " ranks are", " left",
                                  with_layout(layout, layouts.front()));
      return session_(words_for(layout), attempt);
    } catch (const UsageError& error) {
      why = error.what();
    }
  if (has_saved()) why += text("; continue with --resume ", out_.string(), " on more");
  throw autograd::Error(text("no plan fits what is left, ", counted(ranks, "rank"), ": ", why));
}

}  // namespace

int run_elastic(const Words& words, const Session& session) {
  std::optional<ElasticRun> run;
  try {
    return session(words, {});
  } catch (const RanksLost& lost) {
    run.emplace(words, session, lost);
  }
  return run->run();
}

}  // namespace plangrad::examples
