#include "switch_emulator/tables/eviction_policy.hpp"

namespace innet::tables {

void CacheQueue::push_newest(CacheItem& item) {
    item.newer = nullptr;
    item.older = newest_;
    (newest_ != nullptr ? newest_->newer : oldest_) = &item;
    newest_ = &item;
    size_bytes_ += item.size_bytes;
    ++count_;
}

void CacheQueue::remove(CacheItem& item) {
    (item.newer != nullptr ? item.newer->older : newest_) = item.older;
    (item.older != nullptr ? item.older->newer : oldest_) = item.newer;
    item.newer = item.older = nullptr;
    size_bytes_ -= item.size_bytes;
    --count_;
}

}  // namespace innet::tables
