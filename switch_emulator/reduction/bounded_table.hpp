#pragma once
// A fixed number of records, each for one name of a sum.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch_emulator/reduction/reduction_name.hpp"
#include "transport/fetch/request_index.hpp"

namespace innet::reduction {

/// Places in the order in which they were added, each at most once. Every operation is O(1).
class PlaceQueue {
  public:
    static constexpr std::uint32_t kNone = RequestIndex::kNone;

    explicit PlaceQueue(std::size_t capacity) : links_(capacity) {}

    std::uint32_t oldest() const { return head_; }
    bool contains(std::uint32_t place) const { return links_[place].linked; }

    void add(std::uint32_t place) {
        assert(!contains(place));
        links_[place] = {tail_, kNone, true};
        (tail_ == kNone ? head_ : links_[tail_].next) = place;
        tail_ = place;
    }

    void remove(std::uint32_t place) {
        assert(contains(place));
        const Link link = links_[place];
        (link.previous == kNone ? head_ : links_[link.previous].next) = link.next;
        (link.next == kNone ? tail_ : links_[link.next].previous) = link.previous;
        links_[place].linked = false;
    }

  private:
    struct Link {
        std::uint32_t previous = kNone;
        std::uint32_t next = kNone;
        bool linked = false;
    };

    std::vector<Link> links_;
    std::uint32_t head_ = kNone;
    std::uint32_t tail_ = kNone;
};

/// `Record` is default-constructible; `reset()` makes it empty but keeps its memory for the next
/// use.
template <typename Record>
class BoundedTable {
  public:
    static constexpr std::uint32_t kNone = RequestIndex::kNone;

    explicit BoundedTable(std::size_t capacity) : entries_(capacity), in_use_(capacity) {
        free_.reserve(capacity);
        for (std::size_t place = capacity; place > 0; --place) {
            free_.push_back(static_cast<std::uint32_t>(place - 1));
        }
    }

    bool full() const { return free_.empty(); }
    std::size_t size() const { return entries_.size() - free_.size(); }
    /// The record that was added first; kNone when there is none.
    std::uint32_t oldest() const { return in_use_.oldest(); }

    Record& operator[](std::uint32_t place) { return entries_[place].record; }
    const ReductionName& name(std::uint32_t place) const { return entries_[place].name; }

    /// The record of `name`, or kNone.
    std::uint32_t find(const ReductionName& name) const {
        const std::uint32_t place = index_.find(name.hash());
        return place != kNone && entries_[place].name.whole() == name.whole() ? place : kNone;
    }

    /// A record for `name`, which has none; kNone when the table is full or another name has the
    /// hash.
    std::uint32_t add(const ReductionName& name) {
        if (full() || index_.find(name.hash()) != kNone) return kNone;
        const std::uint32_t place = free_.back();
        free_.pop_back();
        Entry& entry = entries_[place];
        const wire::ByteView bytes = name.whole().value();
        entry.bytes.assign(bytes.begin(), bytes.end());
        entry.name = name.moved_to(entry.bytes);
        index_.insert(name.hash(), place);
        in_use_.add(place);
        return place;
    }

    void remove(std::uint32_t place) {
        index_.erase(entries_[place].name.hash());
        in_use_.remove(place);
        entries_[place].record.reset();
        free_.push_back(place);
    }

    /// Places of the records that satisfy `predicate(record)`.
    template <typename Predicate>
    std::vector<std::uint32_t> select(Predicate predicate) const {
        std::vector<std::uint32_t> places;
        for (std::uint32_t place = 0; place < entries_.size(); ++place) {
            if (in_use_.contains(place) && predicate(entries_[place].record))
                places.push_back(place);
        }
        return places;
    }

  private:
    struct Entry {
        std::vector<std::uint8_t> bytes;  ///< of the name
        ReductionName name;
        Record record;
    };

    std::vector<Entry> entries_;
    std::vector<std::uint32_t> free_;
    PlaceQueue in_use_;
    RequestIndex index_;
};

}  // namespace innet::reduction
