// ElasticNews: what a session tells of the ranks that its elastic run has lost.
// Not here: how an elastic run goes on once ranks are lost (elastic.h). Chapter 15.
#pragma once

#include "examples/elastic/elastic.h"
#include "parallel/session/session_rank.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Tells of lost ranks. Ends a plan after each update if more may be lost, so that rank 0 has heard
/// of all updates when one is.
class ElasticNews : public RunObserver {
 public:
  ElasticNews(Words news, const std::string& note, bool may_lose_ranks)
      : news_(std::move(news)), may_lose_ranks_(may_lose_ranks) {
    if (!note.empty()) news_.push_back(note);
  }
  const char* name() const override { return "elastic"; }
  void ready(Lead& lead) override {
    for (const std::string& line : news_) {
      lead.say("elastic: " + line);
      lead.note("elastic", line);
    }
  }
  Border next_border(int done) const override {
    return may_lose_ranks_ ? Border{done + 1, nullptr} : Border();
  }

 private:
  Words news_;
  const bool may_lose_ranks_;
};

}  // namespace plangrad::examples
