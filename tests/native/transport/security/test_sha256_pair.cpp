// Two messages at once have the digests that they have one after the other.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "transport/security/batch_hasher.hpp"
#include "transport/security/sha256_pair.hpp"

using namespace innet;
using Bytes = std::vector<std::uint8_t>;

namespace {

Bytes random_bytes(std::size_t size, std::mt19937& random) {
    Bytes bytes(size);
    std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random()); });
    return bytes;
}

void check_pair(std::span<const wire::ByteView> first, std::span<const wire::ByteView> second) {
    security::Sha256 alone;
    const auto digests = security::digest_pair(first, second);
    CHECK(digests[0] == alone.digest(first));
    CHECK(digests[1] == alone.digest(second));
}

bool can_check() {
    if (!security::can_digest_pairs()) MESSAGE("this CPU has no instructions for SHA-256");
    return security::can_digest_pairs();
}

}  // namespace

TEST_CASE("messages of all lengths round a block's") {
    if (!can_check()) return;
    std::mt19937 random(1);
    for (std::size_t size = 0; size < 200; ++size) {
        const Bytes first = random_bytes(size, random);
        const Bytes second = random_bytes(random() % 200, random);
        const std::array<wire::ByteView, 1> one{first};
        const std::array<wire::ByteView, 1> other{second};
        check_pair(one, other);
    }
}

TEST_CASE("messages in parts, some of which are empty, wherever blocks begin and end in them") {
    if (!can_check()) return;
    std::mt19937 random(2);
    for (int round = 0; round < 300; ++round) {
        std::array<Bytes, 6> bytes;
        std::array<wire::ByteView, 6> parts;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            bytes[i] = random_bytes(round % 5 == 0 ? 64 * (random() % 4) : random() % 300, random);
            parts[i] = bytes[i];
        }
        check_pair(std::span(parts).first(3), std::span(parts).last(3));
    }
}

TEST_CASE("the digest of \"abc\", FIPS 180-4's example") {
    if (!can_check()) return;
    const std::string text = "abc";
    const Bytes message(text.begin(), text.end());
    const std::array<wire::ByteView, 1> parts{message};
    const auto digests = security::digest_pair(parts, parts);
    CHECK(digests[0] == digests[1]);
    CHECK(std::ranges::equal(std::span(digests[0]).first(4),
                             std::array<std::uint8_t, 4>{0xba, 0x78, 0x16, 0xbf}));
}

TEST_CASE("a batch of any number, with one left over") {
    std::mt19937 random(3);
    security::SerialHasher hasher;
    security::Sha256 alone;
    for (std::size_t count = 0; count < 6; ++count) {
        std::vector<Bytes> messages;
        std::vector<security::HashJob> jobs(count);
        for (std::size_t i = 0; i < count; ++i) messages.push_back(random_bytes(999 * i, random));
        for (std::size_t i = 0; i < count; ++i) jobs[i].parts[1] = messages[i];
        hasher.digest(jobs);
        for (std::size_t i = 0; i < count; ++i) CHECK(jobs[i].digest == alone.digest(messages[i]));
    }
}
