#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "switch_emulator/reduction/contributor_set.hpp"
#include "transport/wire/name.hpp"

namespace innet::reduction {

namespace {

bool intersects(const std::string& digits, const std::string& interval) {
    const auto set = ContributorSet::parse(digits);
    REQUIRE(set);
    const wire::Name component = wire::Name().append(interval);
    return set->intersects(component.view().value());
}

}  // namespace

TEST_CASE("a set meets exactly the intervals that hold one of its ranks") {
    constexpr std::size_t kRanks = 9;
    for (const std::size_t bits : {0x1U, 0x2U, 0x81U, 0x100U, 0x1feU, 0x124U, 0x1ffU}) {
        constexpr const char* kDigits = "0123456789abcdef";
        std::string digits;
        for (std::size_t rest = bits; rest != 0; rest >>= 4)
            digits.insert(0, 1, kDigits[rest & 15]);
        for (std::size_t first = 0; first < kRanks; ++first) {
            for (std::size_t length = 1; length <= kRanks; ++length) {
                bool expected = false;
                for (std::size_t i = 0; i < length; ++i) {
                    expected |= (bits >> (first + i) % kRanks & 1) != 0;
                }
                const std::size_t last = (first + length - 1) % kRanks;
                const std::string interval =
                    length == 1 ? std::to_string(first)
                                : std::to_string(first) + '-' + std::to_string(last);
                CAPTURE(digits);
                CAPTURE(interval);
                CHECK(intersects(digits, interval) == expected);
            }
        }
    }
}

TEST_CASE("a set has one canonical form") {
    for (const auto* digits : {"", "0", "01", "F", "0x1", "1g", "-1", "1 "}) {
        CAPTURE(digits);
        CHECK(!ContributorSet::parse(digits));
    }
}

TEST_CASE("a set can have a thousand ranks") {
    const std::string digits = "8" + std::string(255, '0');  // rank 1023 alone
    CHECK(intersects(digits, "1023"));
    CHECK(intersects(digits, "512-1023"));
    CHECK(intersects(digits, "900-3"));
    CHECK(!intersects(digits, "0-1022"));
    CHECK(!intersects(digits, "1024-99999999999999999999999"));
}

TEST_CASE("a non-interval rank set has no contributors unless all contribute") {
    const wire::Name component = wire::Name().append("left");
    CHECK(!ContributorSet::parse("f")->intersects(component.view().value()));
    CHECK(ContributorSet().intersects(component.view().value()));
}

}  // namespace innet::reduction
