// Messages hashed at once have the digests that OpenSSL gives them one after the other.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "tests/native/support/elements.hpp"
#include "transport/security/batch_hasher.hpp"
#include "transport/security/sha256_ipsec_mb.hpp"

using namespace innet;
using test::Bytes;
using test::from_hex;

namespace {

Bytes random_bytes(std::size_t size, std::mt19937& random) {
    Bytes bytes(size);
    std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random()); });
    return bytes;
}

/// In three parts, which may be empty.
security::HashJob job_of(const Bytes& message, std::mt19937& random) {
    std::array<std::size_t, 2> cuts{random() % (message.size() + 1),
                                    random() % (message.size() + 1)};
    std::ranges::sort(cuts);
    const wire::ByteView whole(message);
    return {
        {whole.first(cuts[0]), whole.subspan(cuts[0], cuts[1] - cuts[0]), whole.subspan(cuts[1])}};
}

std::vector<security::HashJob> jobs_of(const std::vector<Bytes>& messages, std::mt19937& random) {
    std::vector<security::HashJob> jobs;
    for (const Bytes& message : messages) jobs.push_back(job_of(message, random));
    return jobs;
}

void check_digests(const std::vector<Bytes>& messages, std::span<const security::HashJob> jobs) {
    security::Sha256 openssl;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        CAPTURE(i);
        CAPTURE(messages[i].size());
        REQUIRE(jobs[i].digest == openssl.digest(messages[i]));
    }
}

void check_all(const std::vector<Bytes>& messages, std::mt19937& random) {
    std::vector<security::HashJob> jobs = jobs_of(messages, random);
    security::SerialHasher().digest(jobs);
    check_digests(messages, jobs);
}

}  // namespace

TEST_CASE("lanes hash messages of all lengths round a block's, full or not") {
    if (security::sha256_lanes().empty()) {
        MESSAGE("skipped: " << security::sha256_libraries() << " alone suits this CPU");
    }
    std::mt19937 random(1);
    for (std::size_t which = 0; which < security::sha256_lanes().size(); ++which) {
        CAPTURE(which);
        for (std::size_t size = 0; size < 200; ++size) {
            const std::size_t count = 1 + random() % security::sha256_lanes()[which].count;
            std::vector<Bytes> messages{random_bytes(size, random)};
            while (messages.size() < count)
                messages.push_back(random_bytes(random() % 300, random));
            std::vector<security::HashJob> jobs = jobs_of(messages, random);
            std::vector<security::HashJob*> places;
            for (security::HashJob& job : jobs) places.push_back(&job);
            security::digest_in_lanes(which, places);
            check_digests(messages, jobs);
        }
    }
}

TEST_CASE("batches of 1 to 33 messages of one length") {
    std::mt19937 random(2);
    for (std::size_t count = 1; count <= 33; ++count) {
        for (const std::size_t size : {0U, 1U, 55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 8'700U}) {
            std::vector<Bytes> messages(count);
            for (Bytes& message : messages) message = random_bytes(size, random);
            check_all(messages, random);
        }
    }
}

TEST_CASE("batches of lengths at random") {
    std::mt19937 random(3);
    for (int round = 0; round < 100; ++round) {
        std::vector<Bytes> messages(random() % 40);
        const std::size_t longest = round % 2 == 0 ? 300 : 9'000;
        for (Bytes& message : messages) message = random_bytes(random() % longest, random);
        check_all(messages, random);
    }
}

TEST_CASE("a batch with messages that are too long for a lane") {
    std::mt19937 random(4);
    for (const std::size_t size : {security::kMaxLaneBytes, security::kMaxLaneBytes + 1}) {
        std::vector<Bytes> messages(18);
        for (Bytes& message : messages) message = random_bytes(size, random);
        check_all(messages, random);
    }
    std::vector<Bytes> messages(18, random_bytes(65'000, random));
    messages[5] = random_bytes(200'000, random);
    check_all(messages, random);
}

TEST_CASE("the digest of \"abc\", FIPS 180-4's example, in each place of a batch") {
    const std::string text = "abc";
    const Bytes message(text.begin(), text.end());
    std::vector<security::HashJob> jobs(33, {{message}});
    security::SerialHasher().digest(jobs);
    for (const security::HashJob& job : jobs) {
        CHECK(Bytes(job.digest.begin(), job.digest.end()) ==
              from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    }
}

TEST_CASE("threads share a batch in shares that leave few lanes empty") {
    CHECK(security::best_share(1) == 1);
    for (std::size_t messages = 1; messages < 70; ++messages) {
        const std::size_t share = security::best_share(messages);
        CHECK(share >= 1);
        CHECK(share <= security::best_batch());
    }
    CHECK(security::best_share(2 * security::best_batch()) == security::best_batch());
}
