// Two threads hash what one would have hashed.

#include <doctest/doctest.h>

#include <vector>

#include "switch_emulator/driver/parallel_hasher.hpp"

using namespace innet;
using Bytes = std::vector<std::uint8_t>;

namespace {

std::vector<Bytes> messages(std::size_t count, std::size_t size) {
    std::vector<Bytes> made(count);
    for (std::size_t i = 0; i < count; ++i) {
        made[i].resize(size + 13 * i, static_cast<std::uint8_t>(7 * i + 1));
    }
    return made;
}

std::vector<security::HashJob> jobs_for(const std::vector<Bytes>& of) {
    std::vector<security::HashJob> jobs;
    for (const Bytes& message : of) {
        const wire::ByteView whole(message);
        const std::size_t third = message.size() / 3;
        jobs.push_back(
            {{whole.first(third), whole.subspan(third, third), whole.subspan(2 * third)}});
    }
    return jobs;
}

}  // namespace

TEST_CASE("every message of a batch gets its own digest, batch after batch") {
    driver::ParallelHasher hasher;
    security::Sha256 sha256;
    for (int round = 0; round < 60; ++round) {
        const auto count = static_cast<std::size_t>(round % 12);
        const std::vector<Bytes> of = messages(count, round % 3 == 0 ? 100 : 40'000);
        std::vector<security::HashJob> jobs = jobs_for(of);
        hasher.digest(jobs);
        for (std::size_t i = 0; i < count; ++i) CHECK(jobs[i].digest == sha256.digest(of[i]));
    }
}

TEST_CASE("a hasher without work ends") {
    driver::ParallelHasher unused;
    driver::ParallelHasher little;
    const std::vector<Bytes> of = messages(2, 10);
    std::vector<security::HashJob> jobs = jobs_for(of);
    little.digest(jobs);
    CHECK(jobs[1].digest == security::Sha256().digest(of[1]));
}
