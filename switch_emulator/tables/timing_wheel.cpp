#include "switch_emulator/tables/timing_wheel.hpp"

#include <bit>

namespace innet::tables {

std::uint64_t TimingWheel::floor_tick(TimePoint time) {
    const auto ticks = time.time_since_epoch() / kTick;
    return ticks < 0 ? 0 : static_cast<std::uint64_t>(ticks);
}

void TimingWheel::schedule(TimerLink& link, TimePoint deadline, TimePoint now) {
    if (link.scheduled()) cancel(link);
    if (size_ == 0) cursor_ = std::max(cursor_, floor_tick(now));
    // Rounded up: a deadline inside a slot is due when the slot is over.
    link.due_tick = floor_tick(deadline + kTick - Duration(1));
    insert(link);
}

void TimingWheel::insert(TimerLink& link) {
    link.slot = std::clamp(link.due_tick, cursor_ + 1, cursor_ + kSlots - 1) % kSlots;
    auto& chunk = chunks_[link.slot / kChunk];
    if (!chunk) {
        chunk = std::make_unique<Chunk>();
        for (TimerLink& head : *chunk) head.previous = head.next = &head;
    }
    TimerLink& first = head(link.slot);
    link.next = &first;
    link.previous = first.previous;
    first.previous->next = &link;
    first.previous = &link;
    mark_occupied(link.slot);
    ++size_;
}

void TimingWheel::cancel(TimerLink& link) {
    if (!link.scheduled()) return;
    link.previous->next = link.next;
    link.next->previous = link.previous;
    link.previous = link.next = nullptr;
    if (head(link.slot).next == &head(link.slot)) mark_vacant(link.slot);
    --size_;
}

void TimingWheel::detach_slot(std::size_t slot, TimerLink& list) {
    list.previous = list.next = &list;
    if ((occupied_[slot / kChunk] >> slot % kChunk & 1U) == 0) return;
    TimerLink& first = head(slot);
    list.next = first.next;
    list.previous = first.previous;
    list.next->previous = &list;
    list.previous->next = &list;
    first.previous = first.next = &first;
    mark_vacant(slot);
}

TimePoint TimingWheel::next_deadline() const {
    if (size_ == 0) return kNever;
    const std::uint64_t first = cursor_ + 1;
    for (std::uint64_t tick = first; tick < first + kSlots;) {
        const std::size_t slot = tick % kSlots;
        const std::uint64_t word = occupied_[slot / kChunk] >> slot % kChunk;
        if (word != 0) {
            tick += static_cast<std::uint64_t>(std::countr_zero(word));
            return TimePoint(kTick * static_cast<Duration::rep>(tick));
        }
        tick += kChunk - slot % kChunk;
    }
    return kNever;
}

}  // namespace innet::tables
