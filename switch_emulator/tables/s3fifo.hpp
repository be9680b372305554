#pragma once
// S3-FIFO: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction",
// SOSP 2023.

#include "switch_emulator/tables/eviction_policy.hpp"
#include "switch_emulator/tables/fifo_hash_set.hpp"

namespace innet::tables {

/// Three FIFO queues: a small one (a tenth of the bytes) that new objects must survive, a main one
/// for those requested more than once meanwhile, and a ghost queue that remembers the names of
/// those that were dropped from the small one, so that they enter the main queue when they are
/// inserted again. A scan of objects that are requested once passes through the small queue and
/// does not change the main one.
class S3Fifo final : public EvictionPolicy {
  public:
    explicit S3Fifo(std::size_t capacity_bytes);

    void on_insert(CacheItem& item) override;
    void on_hit(CacheItem& item) override;
    void on_remove(CacheItem& item) override;
    CacheItem* take_victim() override;
    void resize(std::size_t capacity_bytes) override;

  private:
    CacheItem* take_from_main();
    void remember_ghost(const CacheItem& item);

    std::size_t small_target_bytes_;
    std::size_t main_target_bytes_;
    CacheQueue small_;
    CacheQueue main_;
    FifoHashSet ghosts_;
};

}  // namespace innet::tables
