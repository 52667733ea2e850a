// answer: the facts that the plan player shows, from a request to an answer, both JSON. The program
// `plan` writes an answer into a page; as WebAssembly, the same function answers in the page.
// Not here: the page (player_page.h), and how to read a request (request.h). Chapter 06.
//
// examples/pages/player holds the plan player:
// player_facts.h   this; request.h: what it is asked, ideas.h: what schedules are about
// columns.h        numbers of a million records, as text that a page reads fast
// player_page.h    the page; *.js, player.html and player.css are its parts
#pragma once

#include <string>

namespace plangrad::examples {

/// Answers a request (request.h) with an object. `pack` makes its columns (columns.h); cells and
/// records are counted over all ranks.
///   title, schedule, idea, paper, note, formula {letters, numbers, where, value}
///   text         the plan's text: as given, or printed
///   places       for each written cell its place in the text: line by rank; row_begin by rank;
///                column, length: columns. Lines and columns count from 0
///   header       ranks, stages, per_step, steps, first, sharded, drift, period, keep, holders
///   facts        all that `plan verify --json` prints; null for a broken plan
///   error        for a broken plan: rule, rank, index, message, and place [line, column, length]
///   seconds      the makespan; bars: of an endless plan, by rank
///   ops, values, holds   the names of the numbers in columns
///   records      row_begin by rank, and columns: cell (as written), op, what, stage, micro,
///                version, peer, start, end, cause (the record that it waited for last, or -1),
///                other (a message's other end, or -1), again (1: computed again), bytes
///   held         columns: rank, hold, what, stage, number, start, end
///   memory       by unit, or name of a model: moments and level, by rank two columns: from when on
///                the rank has which level; bytes, by sequences of a microbatch and kind of memory
///                (player_parts.h) a column with what each level has; peaks, by sequences and rank
///   table        the facts to show: lists of name, about, place in facts, unit
///   idle         the bubble's share of each rank
///   peaks        by kind of holding, the most that each rank has at once
///   stopped      in a broken plan, by rank: the written cell where it stands still; -1: its end
/// A broken plan has records up to its fault, unless nothing of it has a meaning. Never throws: an
/// answer to a request that makes no sense has an error, of rule "request", "schedule" or "text".
std::string answer(const std::string& request);

}  // namespace plangrad::examples
