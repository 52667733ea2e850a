// Endless plans: the middle of each row, between its two bars, repeats. Head, body and tail
// together are an ordinary plan, which any number of bodies makes longer or shorter.
// Not here: why every length is right (verifier/repeat.cpp), and where a schedule's bars stand
// (schedules/endless.cpp). Chapter 07.
#pragma once

#include <utility>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// The parts of a row. The tail is written as it runs after one body. A plan of one length is all
/// tail.
enum class Part { head, body, tail };
Part part_of(const Plan& plan, int rank, int cell);
/// The cells of a part of a row, from `first` to before `second`.
std::pair<int, int> cells_of(const Plan& plan, int rank, Part part);

/// An instruction as it runs `repetitions` bodies later than it is written.
Instruction shifted(const Plan& plan, Instruction x, int repetitions);
/// A value that instruction names, `repetitions` bodies later.
Name shifted(const Plan& plan, Name name, int repetitions);

/// The most bodies with which an endless plan has at most `steps` steps, and rows that the engine
/// can count the cells of.
int bodies_for(const Plan& plan, int steps);

/// An endless plan from the run's beginning, moved `steps` later, where its head reads versions as
/// old as its body does: at the beginning there were none before version 0.
/// throws: Error if it does not begin with the run, or its head reads others than its body would
Plan later_by(Plan plan, int steps);

/// The plan of head, `bodies` bodies and tail: an ordinary one, of steps + (bodies - 1) * period
/// steps. throws: Error if the plan is not endless, or would have no steps
Plan unrolled(const Plan& plan, int bodies);

}  // namespace plangrad::parallel
