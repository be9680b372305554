#pragma once
// Coarse timers for hundreds of thousands of deadlines that are mostly cancelled before they are
// due (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 6).

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "transport/time.hpp"

namespace innet::tables {

/// What a timed object carries: a link in the list of its slot.
struct TimerLink {
    TimerLink* previous = nullptr;
    TimerLink* next = nullptr;
    std::uint64_t due_tick = 0;
    std::size_t slot = 0;

    bool scheduled() const { return next != nullptr; }
};

/// Slots of 1 ms. A deadline is never early, and late by at most one slot. Deadlines past the
/// wheel's span of about four seconds wait in its last slot and are rescheduled when it is due.
class TimingWheel {
  public:
    void schedule(TimerLink& link, TimePoint deadline, TimePoint now);
    void cancel(TimerLink& link);

    /// Calls `on_due(link)` for each link whose deadline has passed; the link is no longer
    /// scheduled then, and may be scheduled again. `on_due` may schedule and cancel other links.
    template <typename OnDue>
    void advance(TimePoint now, OnDue&& on_due) {
        const std::uint64_t now_tick = floor_tick(now);
        if (now_tick <= cursor_) return;
        const std::uint64_t slots_passed = std::min<std::uint64_t>(now_tick - cursor_, kSlots);
        const std::uint64_t first = now_tick - slots_passed + 1;
        cursor_ = now_tick;
        if (size_ == 0) return;
        for (std::uint64_t tick = first; tick <= now_tick; ++tick) {
            TimerLink due;
            detach_slot(tick % kSlots, due);
            while (due.next != &due) {
                TimerLink& link = *due.next;
                cancel(link);
                if (link.due_tick > now_tick) {
                    insert(link);
                } else {
                    on_due(link);
                }
            }
        }
    }

    /// When `advance` should be called next: a lower bound of the earliest deadline; kNever when
    /// empty.
    TimePoint next_deadline() const;
    std::size_t size() const { return size_; }

  private:
    static constexpr std::uint64_t kSlots = 4096;
    static constexpr std::uint64_t kChunk = 64;
    static constexpr Duration kTick = std::chrono::milliseconds(1);

    static std::uint64_t floor_tick(TimePoint time);
    void insert(TimerLink& link);
    void detach_slot(std::size_t slot, TimerLink& list);
    TimerLink& head(std::size_t slot) { return (*chunks_[slot / kChunk])[slot % kChunk]; }
    void mark_occupied(std::size_t slot) { occupied_[slot / kChunk] |= 1ULL << slot % kChunk; }
    void mark_vacant(std::size_t slot) { occupied_[slot / kChunk] &= ~(1ULL << slot % kChunk); }

    /// Heads of circular lists, a chunk of slots at a time as they are needed.
    using Chunk = std::array<TimerLink, kChunk>;
    std::array<std::unique_ptr<Chunk>, kSlots / kChunk> chunks_;
    std::array<std::uint64_t, kSlots / kChunk> occupied_{};  ///< one bit per slot
    std::uint64_t cursor_ = 0;  ///< ticks up to this one have been handled
    std::size_t size_ = 0;
};

}  // namespace innet::tables
