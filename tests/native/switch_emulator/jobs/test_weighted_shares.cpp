#include <doctest/doctest.h>

#include <random>

#include "switch_emulator/jobs/weighted_shares.hpp"

using namespace innet;
using jobs::JobId;
using jobs::WeightedShares;

TEST_CASE("guarantees follow weights and never exceed the capacity") {
    for (const std::size_t capacity : {0U, 1U, 7U, 49U, 1000U}) {
        WeightedShares shares(capacity, capacity);
        shares.set_weight(1, 1);
        shares.set_weight(2, 5);
        const std::size_t sum =
            shares.guaranteed(jobs::kNoJob) + shares.guaranteed(1) + shares.guaranteed(2);
        CHECK(sum <= capacity);
        CHECK(shares.guaranteed(2) == capacity * 5 / 7);
        shares.set_weight(2, 0);
        CHECK(shares.guaranteed(2) == 0);
        CHECK(shares.guaranteed(1) == capacity / 2);
    }
}

TEST_CASE("when all is used and one job is below its guarantee, another exceeds its own") {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const std::size_t capacity = 1 + random() % 40;
        WeightedShares shares(capacity, capacity);
        shares.set_weight(jobs::kNoJob, 0);
        for (JobId job = 1; job < 5; ++job)
            shares.set_weight(job, 1 + static_cast<std::uint32_t>(random() % 9));
        while (shares.used() < capacity) shares.take(static_cast<JobId>(1 + random() % 4));
        for (JobId job = 1; job < 5; ++job) {
            if (!shares.is_below_guarantee(job)) continue;
            const JobId debtor = shares.furthest_over();
            REQUIRE(debtor != WeightedShares::kNoneOver);
            CHECK(shares.excess(debtor) > 0);
            CHECK(debtor != job);
        }
    }
}

TEST_CASE("a new job finds its guarantee free where no job borrows reserves") {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        WeightedShares shares(40, 20);
        for (JobId job = 1; job < 5; ++job)
            shares.set_weight(job, 1 + static_cast<std::uint32_t>(random() % 9));
        for (int step = 0; step < 500; ++step) {
            const auto job = static_cast<JobId>(random() % 5);
            if (random() % 3 == 0) {
                if (shares.used(job) > 0) shares.give(job);
            } else if (shares.has_room_beside_reserves(job)) {
                shares.take(job);
            } else {
                REQUIRE_FALSE(shares.is_below_guarantee(job));
            }
            REQUIRE(shares.used() <= shares.capacity());
        }
    }
}
