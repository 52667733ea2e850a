// Versions: the weights that one rank has, by name, while the verifier replays its row.
// Not here: the weights themselves (weight_store), gradient sums (sums).
// Chapter 07.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "parallel/verifier/place.h"

namespace paragrad::parallel {

class Versions {
 public:
  /// tied_versions: of the tied stage, by microbatch; see lifetimes.h. Must live on.
  Versions(const Plan& plan, int rank, const std::set<int>& held,
           const std::vector<int>& tied_versions);

  /// Checks that the weights that a computation, or a send, reads are here and whole.
  /// returns: the cells of the row that brought them, -1 for those that were here from the start
  std::vector<int> read(const Place& at);

  void receive(const Place& at);
  void gather(const Place& at);
  void step(const Place& at);
  int drop(const Place& at);  ///< returns: as read

  /// Frees the superseded versions whose last reader in the row is this cell.
  void retire(const Place& at);

  /// The newest versions of every stage held are here, and nothing else.
  void check_end() const;
  void check_leaks() const;

  int peak() const { return peak_; }  ///< most versions of one stage alive together
  /// Most whose time in the row, from the making or the first reader to the last, is the same.
  int peak_in_use() const { return peak_in_use_; }

 private:
  struct Held {
    int version;
    bool own;             ///< kept, or a shard of it, until it is superseded and no longer read
    bool whole;           ///< can be computed with
    bool copy = false;    ///< sent or gathered for a while: to be dropped
    int brought_by = -1;  ///< a cell of the row
    bool begun = false;   ///< made in the row, or read
  };

  Held* find(int stage, int version);
  const Held& find_or_refuse(const Place& at, int stage, int version) const;
  int newest(int stage) const;
  int oldest_kept(int stage) const;  ///< of those that outlive the plan
  void retire(int stage, int version);
  std::vector<int> versions_of(int stage) const;
  void count(int stage);
  void count_in_use(int stage, int index);

  const Plan& plan_;
  int rank_;
  const std::set<int>& held_stages_;
  const std::vector<int>& tied_versions_;
  std::map<int, std::vector<Held>> held_;     // by stage
  std::unordered_map<Key, int> last_reader_;  // of (stage, version): a cell of the row
  int peak_ = 0, peak_in_use_ = 0;
};

}  // namespace paragrad::parallel
