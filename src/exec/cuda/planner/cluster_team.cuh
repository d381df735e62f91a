// The team of a cluster of blocks, of Hopper and later; see plan/team/team.hpp.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "exec/cuda/common/cluster.cuh"
#include "exec/cuda/planner/block_team.cuh"
#include "plan/team/team_memory.hpp"

namespace trunkline::cuda {

/// All threads of a cluster. Warps take turns over the blocks, so that a few items are spread as well.
template <class Block>
class ClusterTeamOf : public TeamOperations {
 public:
  static constexpr bool kOneBlock = false;
  static constexpr std::int32_t kLanes = Block::kLanes;

  /// \param lead the block of the cluster that leads; ranks count from there on
  __device__ __forceinline__ explicit ClusterTeamOf(TeamScratch& scratch, std::int32_t lead = 0)
      : block_(scratch), scratch_(&scratch), blocks_(static_cast<std::int32_t>(cluster().num_blocks())), lead_(lead) {
    const auto own = static_cast<std::int32_t>(cluster().block_rank());
    rank_ = own < lead ? own - lead + blocks_ : own - lead;
  }

  template <class F>
  __device__ __forceinline__ void each(std::int32_t count, F f) {
#pragma unroll 1
    for (std::int32_t i = warp() * 32 + Block::lane(); i < count; i += warps() * 32) f(i);
    wait();
  }
  template <class F>
  __device__ __forceinline__ void each_at_last(std::int32_t count, F f) {
    each_at_last_of_spared(count, 0, 0, f);
  }
  template <class F>
  __device__ __forceinline__ std::int32_t each_at_last_of_spared(std::int32_t count, std::int32_t head,
                                                                 std::int32_t spared, F f) {
    const std::int32_t rank = rank_ - spared;
    const std::int32_t blocks = blocks_ - spared - (head > 0 ? 1 : 0);
    const bool has_head = rank == blocks;
    std::int32_t begin = head + (Block::warp() * blocks + rank) * 32 + Block::lane();
    std::int32_t end = count;
    std::int32_t step = Block::threads() * blocks;
    const std::int32_t share = ceil_div(count - head, 32 * blocks) * 32;  // a block's, in whole warps
    if (has_head || share <= kNeighbours) {
      begin = (has_head ? 0 : head + rank * share) + static_cast<std::int32_t>(threadIdx.x);
      end = has_head ? head : trunkline::least(head + (rank + 1) * share, count);
      step = Block::threads();
    }
#pragma unroll 1
    for (std::int32_t i = begin; i < end; i += step) f(i);
    return share;
  }
  /// Of a power of two of threads.
  __device__ __forceinline__ StridedPart part(bool own, std::int32_t spared, std::int32_t busy) const {
    const std::int32_t rank = own ? 0 : rank_ - spared;
    const std::int32_t blocks = own ? 1 : blocks_ - spared - (spared > 0 ? 1 : 0);
    const std::int32_t thread = (static_cast<std::int32_t>(threadIdx.x) - busy) & (Block::threads() - 1);
    constexpr std::int32_t kBehindAll = 1 << 30;
    const std::int32_t begin = ((thread >> 5) * blocks + rank) * 32 + Block::lane();
    return {rank == blocks ? kBehindAll : begin, Block::threads() * blocks};
  }
  template <class F>
  __device__ __forceinline__ void each_warp(std::int32_t count, F f) {
#pragma unroll 1
    for (std::int32_t i = warp(); i < count; i += warps()) f(i, WarpLanes());
    wait();
  }
  /// Blocks that have told nothing do not wait for their writes to be seen.
  template <class F>
  __device__ __forceinline__ void pass(bool told, F f) {
    meet();
    if (told) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    cluster_arrive();
    f();
    cluster_wait();
  }
  template <class F>
  __device__ __forceinline__ void pass_where(bool where, F f) {
    if (where) {
      meet();
      cluster_arrive();
    }
    f();
    if (where) cluster_wait();
  }
  template <class F, class Thing>
  __device__ __forceinline__ void each_warp_telling(bool own, std::int32_t count, const Telling& told,
                                                    std::int32_t spared, F f, Thing thing) {
    const std::int32_t step = own ? Block::threads() / 32 : warps();
#pragma unroll 1
    for (std::int32_t i = own ? Block::warp() : warp(); i < count; i += step) f(i, WarpLanes());
    if (!own) return wait();
    if (told.all > 0) {
      const std::uint32_t all_received = received(told.number);
      constexpr auto kBytes = static_cast<std::uint32_t>(sizeof(*thing(0)));
      if (threadIdx.x == 0) expect_bytes(all_received, static_cast<std::uint32_t>(told.all - told.own) * kBytes);
      __syncwarp();
      const std::int32_t other = spared + Block::lane();
#pragma unroll 1
      for (std::int32_t i = Block::warp(); i < told.own && other != rank_; i += step) {
        store_in(other, thing(i), all_received);
      }
      wait_for_bytes(all_received);
    }
    __syncthreads();
  }
  __device__ __forceinline__ BlockShare share(std::int32_t count, std::int32_t spared) const {
    return BlockShare::of(count, rank_ - spared, blocks_ - spared);
  }
  template <class T>
  __device__ __forceinline__ void tell_blocks(const WarpLanes& lanes, T* from) const {
    const std::int32_t other = lanes.index();
    if (other < blocks_ && other != rank_ && has_own(from)) store_whole(*of_rank(from, other), *from);
  }
  __device__ __forceinline__ static bool has_own(const void* memory) {
    return __isShared(memory) != 0;
  }
  __device__ __forceinline__ bool leads(std::int32_t blocks = 0) const {
    return rank_ == blocks;
  }
  __device__ __forceinline__ bool can_spare(std::int32_t count) const {
    return blocks_ >= count + 2;
  }
  __device__ __forceinline__ bool spares(std::int32_t count) const {
    return rank_ >= count;
  }
  __device__ __forceinline__ bool takes(std::int32_t i) const {
    return i % blocks_ == rank_;
  }
  template <class Next, class F, class Last>
  __device__ __forceinline__ void lead_rounds(Next next, F f, Last last) {
    meet();
#pragma unroll 1
    for (std::int32_t round = 0;; ++round) {
      if (rank_ == 0) {
        const std::int32_t count = next(block_, round);
        if (count == 0) last(block_);
        const auto other = static_cast<std::int32_t>(threadIdx.x);
        if (other < blocks_) *of_rank(&scratch_->from_lead, other) = count;
      }
      wait();
      const std::int32_t count = scratch_->from_lead;
      if (count == 0) return;
      each_warp(count, f);
    }
  }
  template <class F, class Told>
  __device__ __forceinline__ void each_block(std::int32_t count, F f, Told told) {
#pragma unroll 1
    for (std::int32_t i = rank_; i < count; i += blocks_) {
      f(i, block_);
      tell_all(told(i));
    }
    wait();
  }
  template <class F>
  __device__ __forceinline__ void lead(F f) {
    if (rank_ == 0) f(block_);
    wait();
  }
  template <class F>
  __device__ __forceinline__ void own(F f) {
    f(block_, rank_ + 1 == blocks_);
  }
  template <class F>
  __device__ __forceinline__ void own_or_lead(bool own, F f) {
    if (own || rank_ == 0) f(block_);
    if (!own) wait();
  }
  template <class F>
  __device__ __forceinline__ void once(F f) {
    if (rank_ == 0 && threadIdx.x == 0) f();
    wait();
  }

  /// The lead block's copy of a shared variable.
  template <class T>
  __device__ __forceinline__ T* of_lead(T* shared) const {
    return rank_ == 0 ? shared : of_rank(shared, 0);
  }
  /// At the start of a kernel, by one team of it, before arrive().
  __device__ __forceinline__ void begin() {
    if (threadIdx.x < Telling::kNumbers) init_for_bytes(received(static_cast<Telling::Number>(threadIdx.x)));
    __syncwarp();
  }
  /// The block has read what others may overwrite once they meet(), and they may write to its memory then. It has
  /// written nothing yet that others were to see: relaxed, it waits for no store.
  __device__ __forceinline__ void arrive() {
    cluster_arrive();
    arrived_ = true;
  }
  /// All blocks have arrived.
  __device__ __forceinline__ void meet() {
    if (!arrived_) return;
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    arrived_ = false;
  }
  /// A barrier. Also the last thing that blocks do together: the lead block's shared memory lasts as long as it runs.
  __device__ __forceinline__ void wait() {
    meet();
    cluster().sync();
  }

 private:
  // So many neighbours at most are one block's in each_at_last(): plans of 256 requests take 0.5 us less, as each block
  // fetches less code; those of 1,024 that share would take 1 to 2 more.
  static constexpr std::int32_t kNeighbours = 4 * 32;

  /// By all threads of a block.
  template <class T>
  __device__ __forceinline__ void tell_all(T* from) const {
    const std::int32_t count = from->words();
    auto* const words = reinterpret_cast<std::uint32_t*>(from);
    const std::int32_t rank = Block::warp();  // there are as many warps as blocks, or more
    if (rank >= blocks_ || rank == rank_) return;
    std::uint32_t* const there = of_rank(words, rank);
#pragma unroll 1
    for (std::int32_t i = Block::lane(); i < count; i += 32) there[i] = words[i];
  }

  __device__ __forceinline__ static cooperative_groups::cluster_group cluster() {
    return cooperative_groups::this_cluster();
  }
  /// The same place in the shared memory of the block of a rank.
  template <class T>
  __device__ __forceinline__ T* of_rank(T* shared, std::int32_t rank) const {
    return cluster().map_shared_rank(shared, block_of(rank));
  }
  __device__ __forceinline__ std::uint32_t block_of(std::int32_t rank) const {
    const std::int32_t block = rank + lead_;
    return static_cast<std::uint32_t>(block < blocks_ ? block : block - blocks_);
  }
  /// Where bytes that blocks store here arrive. A barrier of the cluster would have each block wait for its writes to
  /// be seen by the whole GPU (MEMBAR.ALL.GPU), 0.4 us.
  __device__ __forceinline__ std::uint32_t received(Telling::Number number) const {
    return shared_address(&scratch_->received[number]);
  }
  /// The same place in the memory of the block of a rank, if there is one, which counts the bytes.
  template <class T>
  __device__ __forceinline__ void store_in(std::int32_t rank, const T* from, std::uint32_t all_received) const {
    static_assert(sizeof(T) % sizeof(uint4) == 0);
    if (rank >= blocks_) return;
    const std::uint32_t place = address_at(shared_address(from), block_of(rank));
    const std::uint32_t barrier = address_at(all_received, block_of(rank));
    for (std::uint32_t i = 0; i < sizeof(T) / sizeof(uint4); ++i) {
      store_there(place + i * static_cast<std::uint32_t>(sizeof(uint4)), barrier,
                  reinterpret_cast<const uint4*>(from)[i]);
    }
  }
  __device__ __forceinline__ std::int32_t warp() const {
    return Block::warp() * blocks_ + rank_;
  }
  __device__ __forceinline__ std::int32_t warps() const {
    return Block::threads() / 32 * blocks_;
  }

  Block block_;
  TeamScratch* scratch_;
  std::int32_t blocks_;
  std::int32_t lead_;
  std::int32_t rank_;
  bool arrived_ = false;
};

}  // namespace trunkline::cuda
