#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "switch_emulator/port/random_bits.hpp"
#include "transport/deadline_heap.hpp"

using namespace innet;

TEST_CASE("a deadline heap agrees with a linear search") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        port::RandomBits random(seed);
        DeadlineHeap heap;
        std::vector<TimePoint> model;
        for (int step = 0; step < 3000; ++step) {
            if (model.empty() || random.happens(0.05)) {
                heap.add();
                model.push_back(kNever);
            }
            const auto index = static_cast<std::uint32_t>(random.below(model.size()));
            // Few different times, so that many are equal.
            const TimePoint deadline =
                random.happens(0.3) ? kNever : TimePoint(Duration(1 + random.below(50)));
            heap.set(index, deadline);
            model[index] = deadline;
            const auto first = std::ranges::min_element(model);
            REQUIRE(heap.earliest() == *first);
            if (*first != kNever) {
                REQUIRE(heap.first() == static_cast<std::uint32_t>(first - model.begin()));
            }
        }
    }
}

TEST_CASE("an empty heap is never due") {
    DeadlineHeap heap;
    CHECK(heap.earliest() == kNever);
    heap.add();
    CHECK(heap.earliest() == kNever);
    heap.set(0, TimePoint(Duration(5)));
    heap.set(0, kNever);
    CHECK(heap.earliest() == kNever);
}
