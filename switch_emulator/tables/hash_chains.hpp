#pragma once
// Hash table of objects that live elsewhere, in chains of bounded length.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <vector>

#include "transport/wire/name_hash.hpp"

namespace innet::tables {

/// `Item` has a member `next_in_bucket`; `kHashOf` gives an item's hash. There are never more items
/// than buckets.
///
/// Under a secret key, an item meets a full chain with a probability below 2^-100. The bound is for
/// a peer that has learnt the key: a look-up costs at most `kMaxChain` probes whatever names there
/// are, and the table refuses what no longer fits into a bucket.
template <typename Item, auto kHashOf>
class HashChains {
  public:
    static constexpr std::size_t kMaxChain = 32;

    /// `buckets` (at least 1) are rounded up to a power of two.
    explicit HashChains(std::size_t buckets) : buckets_(std::bit_ceil(buckets), nullptr) {}

    /// The chain in which items of this hash are. It has others, too.
    Item* first(wire::NameHash hash) const { return buckets_[index(hash)]; }

    /// Whether an item of this hash may be added. Ask before each `insert`.
    bool has_room(wire::NameHash hash) const { return length(first(hash)) < kMaxChain; }

    void insert(Item& item) {
        if (size_ == buckets_.size()) grow();
        link(item);
        ++size_;
    }

    /// `item` must be in the table.
    void erase(Item& item) {
        Item** link = &buckets_[index(std::invoke(kHashOf, item))];
        while (*link != &item) link = &(*link)->next_in_bucket;
        *link = item.next_in_bucket;
        --size_;
    }

    template <typename Visit>
    void for_each(Visit visit) const {
        for (Item* item : buckets_) {
            for (; item != nullptr; item = item->next_in_bucket) visit(*item);
        }
    }

    std::size_t size() const { return size_; }
    /// The most items that a look-up may have to compare. Takes time for all of them.
    std::size_t longest_chain() const {
        std::size_t longest = 0;
        for (const Item* item : buckets_) longest = std::max(longest, length(item));
        return longest;
    }

  private:
    static std::size_t length(const Item* item) {
        std::size_t length = 0;
        for (; item != nullptr; item = item->next_in_bucket) ++length;
        return length;
    }

    std::size_t index(wire::NameHash hash) const {
        return static_cast<std::size_t>(hash) & (buckets_.size() - 1);
    }

    void link(Item& item) {
        Item*& first = buckets_[index(std::invoke(kHashOf, item))];
        item.next_in_bucket = first;
        first = &item;
    }

    void grow() {
        std::vector<Item*> old(2 * buckets_.size(), nullptr);
        old.swap(buckets_);
        for (Item* item : old) {
            while (item != nullptr) {
                Item* next = item->next_in_bucket;
                link(*item);
                item = next;
            }
        }
    }

    std::vector<Item*> buckets_;
    std::size_t size_ = 0;
};

}  // namespace innet::tables
