#include "transport/deadline_heap.hpp"

namespace innet {

void DeadlineHeap::add() {
    deadlines_.push_back(kNever);
    positions_.push_back(kAbsent);
}

void DeadlineHeap::set(std::uint32_t index, TimePoint deadline) {
    const TimePoint before_now = deadlines_[index];
    if (deadline == before_now) {
        return;
    }
    if (deadline == kNever) {
        remove(index);
        return;
    }
    deadlines_[index] = deadline;
    if (positions_[index] == kAbsent) {
        order_.push_back(index);
        positions_[index] = static_cast<std::uint32_t>(order_.size() - 1);
        rise(order_.size() - 1);
    } else if (deadline < before_now) {
        rise(positions_[index]);
    } else {
        sink(positions_[index]);
    }
}

bool DeadlineHeap::before(std::uint32_t left, std::uint32_t right) const {
    return deadlines_[left] != deadlines_[right] ? deadlines_[left] < deadlines_[right]
                                                 : left < right;
}

void DeadlineHeap::place(std::size_t position, std::uint32_t index) {
    order_[position] = index;
    positions_[index] = static_cast<std::uint32_t>(position);
}

void DeadlineHeap::rise(std::size_t position) {
    const std::uint32_t index = order_[position];
    while (position > 0) {
        const std::size_t parent = (position - 1) / 2;
        if (!before(index, order_[parent])) {
            break;
        }
        place(position, order_[parent]);
        position = parent;
    }
    place(position, index);
}

void DeadlineHeap::sink(std::size_t position) {
    const std::uint32_t index = order_[position];
    while (true) {
        std::size_t child = 2 * position + 1;
        if (child >= order_.size()) {
            break;
        }
        if (child + 1 < order_.size() && before(order_[child + 1], order_[child])) {
            ++child;
        }
        if (!before(order_[child], index)) {
            break;
        }
        place(position, order_[child]);
        position = child;
    }
    place(position, index);
}

void DeadlineHeap::remove(std::uint32_t index) {
    const std::size_t position = positions_[index];
    positions_[index] = kAbsent;
    deadlines_[index] = kNever;
    const std::uint32_t last = order_.back();
    order_.pop_back();
    if (last != index) {
        place(position, last);
        rise(position);
        sink(positions_[last]);
    }
}

}  // namespace innet
