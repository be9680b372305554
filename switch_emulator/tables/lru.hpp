#pragma once
// Evicts the least recently used object first.

#include "switch_emulator/tables/eviction_policy.hpp"

namespace innet::tables {

class Lru final : public EvictionPolicy {
  public:
    void on_insert(CacheItem& item) override;
    void on_hit(CacheItem& item) override;
    void on_remove(CacheItem& item) override;
    CacheItem* take_victim() override;
    void resize(std::size_t) override {}

  private:
    CacheQueue queue_;
};

}  // namespace innet::tables
