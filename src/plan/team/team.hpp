// A team: threads that go through the same planning code together. One source is compiled for the host, where a team is
// one thread (HostTeam), and for a device, where it is a block or a cluster of blocks (exec/cuda/planner/).
//
// What every team has:
//   kOneBlock                 whether a team of that kind never has several blocks
//   kLanes                    lanes of a warp
//   each(count, f)            f(i) for i in [0, count), spread over all threads, in any order; then a barrier
//   each_at_last(count, f)    the same without a barrier: the last that a team does, or what each(0, ...) ends. Where
//                             they are few, neighbours are one block's, so that not each has all kinds of things to do
//   each_warp(count, f)       f(i, lanes): i is a warp's, whose lanes share the work on it; then a barrier
//   each_warp_for(count, things, f)  each_warp of one block, where each i has so many things; two warps share the work
//                             on it where these are more than the lanes of one. No more i than eight
//   each_block(count, f, told)  f(i, block): i is a block's, itself a team; *told(i), its first told(i)->words() words,
//                             then goes to the same place in the memory of all blocks, where they have memory of their
//                             own; then a barrier
//   lanes()                   of the thread's warp, where all of its threads are
//   lead_rounds(next, f, last)  next(block, round) by one block says how many warps' steps there are, f(i, lanes) of
//                             which all do; and so on until there are none: then last(block) by the same block. For
//                             two barriers a round, and one at the end
//   tell_blocks(lanes, pointer)  what is there goes to the same place in the memory of all blocks, where they have
//                             memory of their own; by a warp, and known after a barrier
//   pass(told, f)             a barrier for what tell_blocks() has sent, by blocks that say so, and nothing else; f by
//                             all threads while others are waited for: they see what it writes after one barrier more.
//                             It may call what each block does for itself
//   pass_where(where, f)      pass(false, f); where it is not set, f alone
//   has_own(pointer)          whether that is memory of the block's own, or of the only one
//   own(f)                    f(block, last) by each block for itself, without a barrier; last: it is the team's last
//   own_or_lead(own, f)       f(block) by each block for itself, or by the lead, while the others wait
//   meet()                    all blocks have come so far that each has read what it looks at before it begins; no
//                             barrier for what they wrote
//   leads()                   whether the block is the lead; leads(blocks), of those which spares(blocks)
//   can_spare(count)          whether several blocks have none of so many i of each_block
//   spares(count)             whether the block is one of them
//   each_at_last_of_spared(count, head, blocks, f)  each_at_last by those blocks alone, which spares(blocks): the last
//                             of them does what is before `head`, the others the rest. About how many of the block's
//                             threads have something to do then is returned
//   part(own, blocks, busy)   which things the thread is to do of those that such blocks share, but for the last of
//                             them unless blocks are 0; where `own` is set, of those of its block alone. So many
//                             threads of the block have something to do already, and come last
//   share(count, blocks)      which of so many things are the block's, of those which spares(blocks): neighbours
//   each_warp_telling(own, count, told, blocks, f, thing)  each_warp; where `own` is set, by the block's own warps for
//                             so many i of its own, and not by blocks that spares() does not say. Of the first told.own
//                             of these what thing(i) points to, written by the warp of f(i), then goes to the same
//                             place in the memory of those blocks, where they have memory of their own. After told.all
//                             of all of them each has these, and sees what its own threads wrote, but not what others
//                             did; a block that tells nothing holds nobody up
//   takes(i)                  whether i is the block's part of what is done once
//   lead(f)                   f(block) by one block, while the others wait: for steps too small to be spread
//   once(f)                   f() by one thread; then a barrier
//   leave()                   the last of all: threads of a device end, so that who calls what ends with it needs to
//                             keep nothing meanwhile
//   scan_exclusive(v, count)  in place; the sum of all is returned to all threads
//   scan(count, f, put)       put(i, sum of f before i) for each i, and put(count, sum of all), which is returned to
//                             all threads; f(i) is called once, and put(i) by its thread
//   select(count, f, put)     put(k, i) for the k-th i, in rising order, of those where f(i), which is called once for
//                             each i; how many they are is returned to all threads
//   any(count, f)             whether f(i) is true for any i, to all threads
//   sum, least, greatest      (count, none, f) over f(i), which is called once for each i, returned to all threads;
//                             `none` where count is 0; with a barrier
//   forgotten(pointer)        the same pointer, of which the compiler no longer knows: what follows from it is computed
//                             there, and takes no registers before
//   peek(x)                   what is there now, where others may be writing it in the same call
//   fetch_add, fetch_least, fetch_greatest, compare_exchange: atomic, and return what was there
// A barrier, but for pass(), makes all writes before it visible to all threads.
//
// scan_exclusive, scan, select, any, each_warp_for and the reductions are of one block (in lead, own, own_or_lead,
// each_block and beside); all else is of any team.
//
// Rules for such code:
// - Code outside of these calls is run by all threads alike: it reads what barriers have made known, and writes nothing
//   but its own variables.
// - What is read there is written by no f of the call that follows it, but only after one barrier more: a slow thread
//   may still be reading.
// - Calls are not nested, but for those of a block in each_block, own, own_or_lead, lead and beside, where the block is
//   the team, and in pass for what has no barrier of several blocks: own, own_or_lead and each_warp_telling where a
//   block does it for itself, each_at_last...
// - Nothing may depend on the order of i. HostTeam shuffles it, so that tests see what does.
// - Of atomics only what does not depend on their order may decide anything: sums, bounds, whether a key is known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// What is summed together. All that sums of a team need: + and -.
template <std::size_t kCount>
struct TeamWords {
  std::int64_t at[kCount];

  TRUNKLINE_HOST_DEVICE friend TeamWords operator+(TeamWords a, const TeamWords& b) {
    for (std::size_t i = 0; i < kCount; ++i) a.at[i] += b.at[i];
    return a;
  }
  TRUNKLINE_HOST_DEVICE friend TeamWords operator-(TeamWords a, const TeamWords& b) {
    for (std::size_t i = 0; i < kCount; ++i) a.at[i] -= b.at[i];
    return a;
  }
};

/// Neighbours among `count` things of which each of some blocks has a share of its own.
struct BlockShare {
  std::int32_t most;  ///< the longest
  Range own;

  TRUNKLINE_HOST_DEVICE static BlockShare of(std::int32_t count, std::int32_t rank, std::int32_t blocks) {
    const std::int32_t most_of_all = ceil_div(count, blocks);
    const std::int32_t begin = least(rank * most_of_all, count);
    return {most_of_all, {begin, least(begin + most_of_all, count)}};
  }
};

/// Each so-many-th thing from one on.
struct StridedPart {
  std::int32_t begin;
  std::int32_t step;
};

/// What blocks tell each other by themselves, without a barrier of all.
struct Telling {
  enum Number : std::uint8_t { kSketchTiles, kSketchItems, kTiles, kItems, kNumbers };

  Number number;     ///< each once in a launch
  std::int32_t own;  ///< things that the block tells
  std::int32_t all;  ///< that all do together; 0: none does
};

/// A warp of one lane: the host's, or a thread of a device by itself. All lanes of a warp call these together.
class HostLanes {
 public:
  TRUNKLINE_HOST_DEVICE std::int32_t index() const { return 0; }
  TRUNKLINE_HOST_DEVICE std::int32_t count() const { return 1; }
  /// Over the lanes; each gets the result.
  template <class T>
  TRUNKLINE_HOST_DEVICE T least(T value) const {
    return value;
  }
  template <class T>
  TRUNKLINE_HOST_DEVICE T greatest(T value) const {
    return value;
  }
  template <class T>
  TRUNKLINE_HOST_DEVICE T sum(T value) const {
    return value;
  }
  TRUNKLINE_HOST_DEVICE bool any(bool value) const { return value; }
  /// Makes what lanes wrote visible to the others.
  TRUNKLINE_HOST_DEVICE void wait() const {}
  /// What a lane has.
  template <class T>
  TRUNKLINE_HOST_DEVICE T from(const T& value, std::int32_t) const {
    return value;
  }
};

}  // namespace trunkline
