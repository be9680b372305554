#pragma once
// Interface of the content store's eviction policies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace innet::tables {

/// What a policy knows of a cached object; linked into one of the policy's queues.
struct CacheItem {
    CacheItem* newer = nullptr;
    CacheItem* older = nullptr;
    std::uint64_t hash = 0;  ///< of the name
    std::size_t size_bytes = 0;
    std::uint8_t frequency = 0;
    bool in_main_queue = false;
};

/// Items in the order of their insertion, with the bytes they take.
class CacheQueue {
  public:
    void push_newest(CacheItem& item);
    void remove(CacheItem& item);
    CacheItem* oldest() const { return oldest_; }
    std::size_t size_bytes() const { return size_bytes_; }
    std::size_t count() const { return count_; }

  private:
    CacheItem* newest_ = nullptr;
    CacheItem* oldest_ = nullptr;
    std::size_t size_bytes_ = 0;
    std::size_t count_ = 0;
};

/// Chooses the object to evict when a new one needs its room.
class EvictionPolicy {
  public:
    virtual ~EvictionPolicy() = default;
    virtual void on_insert(CacheItem& item) = 0;
    virtual void on_hit(CacheItem& item) = 0;
    /// The store drops `item` by itself.
    virtual void on_remove(CacheItem& item) = 0;
    /// Chooses the object to drop and forgets it; null when there is none.
    virtual CacheItem* take_victim() = 0;
    /// The store has another number of bytes for this policy's objects.
    virtual void resize(std::size_t capacity_bytes) = 0;
};

/// Makes a policy for objects of so many bytes.
using PolicyMaker = std::function<std::unique_ptr<EvictionPolicy>(std::size_t capacity_bytes)>;

}  // namespace innet::tables
