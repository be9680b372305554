#include "switch_emulator/tables/s3fifo.hpp"

#include <algorithm>

namespace innet::tables {

namespace {

constexpr std::uint8_t kMaxFrequency = 3;
// An object moves to the main queue when it was requested more than once in the small one.
constexpr std::uint8_t kPromotionFrequency = 2;

// As many ghosts as the main queue could hold objects of 1 KiB; never more than 512 KiB of hashes.
std::size_t ghost_capacity(std::size_t capacity_bytes) {
    return std::clamp<std::size_t>(capacity_bytes / 1024, 64, 65536);
}

}  // namespace

S3Fifo::S3Fifo(std::size_t capacity_bytes)
    : small_target_bytes_(capacity_bytes / 10),
      main_target_bytes_(capacity_bytes - small_target_bytes_),
      ghosts_(ghost_capacity(capacity_bytes)) {}

void S3Fifo::resize(std::size_t capacity_bytes) {
    small_target_bytes_ = capacity_bytes / 10;
    main_target_bytes_ = capacity_bytes - small_target_bytes_;
}

void S3Fifo::on_insert(CacheItem& item) {
    item.frequency = 0;
    item.in_main_queue = ghosts_.contains(item.hash);
    (item.in_main_queue ? main_ : small_).push_newest(item);
}

void S3Fifo::on_hit(CacheItem& item) {
    if (item.frequency < kMaxFrequency) ++item.frequency;
}

void S3Fifo::on_remove(CacheItem& item) { (item.in_main_queue ? main_ : small_).remove(item); }

CacheItem* S3Fifo::take_victim() {
    while (CacheItem* item = small_.oldest()) {
        if (small_.size_bytes() < small_target_bytes_ && main_.oldest() != nullptr) break;
        small_.remove(*item);
        if (item->frequency < kPromotionFrequency) {
            remember_ghost(*item);
            return item;
        }
        item->frequency = 0;
        item->in_main_queue = true;
        main_.push_newest(*item);
        if (main_.size_bytes() > main_target_bytes_) break;
    }
    return take_from_main();
}

CacheItem* S3Fifo::take_from_main() {
    while (CacheItem* item = main_.oldest()) {
        main_.remove(*item);
        if (item->frequency == 0) return item;
        --item->frequency;
        main_.push_newest(*item);
    }
    return nullptr;
}

void S3Fifo::remember_ghost(const CacheItem& item) {
    // The ghost queue is as long as the main one, so that what returns after that counts as new.
    const std::size_t most = std::max<std::size_t>(main_.count(), 64);
    while (ghosts_.size() >= most) ghosts_.forget_oldest();
    ghosts_.insert(item.hash);
}

}  // namespace innet::tables
