// Borders: the updates after which a run's plans end, because all ranks have to meet there: it is
// validated, saved, checked or pruned, or ends.
// Not here: what is done there (session_lead.cpp). Chapter 05.
#pragma once

#include "parallel/session/session.h"

namespace plangrad::parallel {

class Borders {
 public:
  /// `first`: updates that were made before this session. `bits_every`: updates between choices of
  /// bits, 0 if there are none. `observers` must outlive it.
  Borders(const SessionScope& scope, int first, int bits_every, const Observers& observers);

  /// The updates of the run after which this session ends.
  int last() const { return last_; }
  /// The updates from `done` on to the next border.
  int distance(int done) const;
  /// What is at the border after `done` updates, the latest before them after `before`; null if
  /// there is none.
  const char* why(int before, int done) const;

  bool saves(int before, int done) const { return due(save_every_, before, done); }
  bool chooses_bits(int before, int done) const { return due(bits_every_, before, done); }

 private:
  static bool due(int every, int before, int done) {
    return every > 0 && done / every > before / every;
  }

  int last_, save_every_, bits_every_;
  const Observers& observers_;
};

/// throws: Error if the plans can't end at all borders behind `first`
void check_lengths(const Lengths& lengths, const Borders& borders, int first);

}  // namespace plangrad::parallel
