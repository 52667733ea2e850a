// The computations of recorded updates for a page's timeline: measured and planned times, and what
// each of them waited for. Not here: how the page draws them (examples/pages/report/). Chapter 06.
#pragma once

#include <nlohmann/json.hpp>

#include "examples/pages/report_late.h"

namespace plangrad::parallel {

/// {"tick" (seconds), "rows": [{"rank", "same": ranks with equal rows, "cells": instructions as
/// text, "measured" and "planned": for each cell the ticks from the end of the one before to its
/// begin, and those that it takes, "waits": [cell, ticks for another rank, in messages, in
/// collectives, what it waited for]}], "left_out": what is not here, in words}.
/// Of very many cells only those of `update` and their neighbours stay; of more than that, some
/// ranks.
nlohmann::json cells_json(const Plan& plan, const Timeline& measured, const Timeline& planned,
                          const UpdateSpan& update);

}  // namespace plangrad::parallel
