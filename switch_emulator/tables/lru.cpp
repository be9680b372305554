#include "switch_emulator/tables/lru.hpp"

namespace innet::tables {

void Lru::on_insert(CacheItem& item) { queue_.push_newest(item); }

void Lru::on_hit(CacheItem& item) {
    queue_.remove(item);
    queue_.push_newest(item);
}

void Lru::on_remove(CacheItem& item) { queue_.remove(item); }

CacheItem* Lru::take_victim() {
    CacheItem* victim = queue_.oldest();
    if (victim != nullptr) queue_.remove(*victim);
    return victim;
}

}  // namespace innet::tables
