// Reductions whose operands and results differ in size.

#include <cstring>

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

constexpr auto kMismatch = static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch);
constexpr auto kOverflow = static_cast<std::uint64_t>(wire::TensorErrorCode::kOverflow);
constexpr const char* kKind = "sum.u64-i64";

using PairList = std::vector<std::pair<std::uint64_t, std::int64_t>>;

std::vector<std::uint8_t> content(const PairList& pairs) {
    const auto count = static_cast<std::uint32_t>(pairs.size());
    std::vector<std::uint8_t> bytes(sizeof count + pairs.size() * 16);
    std::memcpy(bytes.data(), &count, sizeof count);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        std::uint8_t* keys = bytes.data() + sizeof count;
        std::memcpy(keys + 8 * i, &pairs[i].first, 8);
        std::memcpy(keys + 8 * (pairs.size() + i), &pairs[i].second, 8);
    }
    return bytes;
}

/// Ranks 0 and 1 give what they have; the reducer's answer to `0-1`.
struct Union {
    Union() {
        f.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
        REQUIRE(f.admit(f.operand_uri("0-1", 9, kKind)) == Admission::kAccepted);
    }
    void arrive(int rank, const std::vector<std::uint8_t>& pairs) {
        f.arrive(f.operand_uri(std::to_string(rank), 9, kKind), pairs, {.elements = 77});
    }
    Answer answer() {
        auto answers = f.answers();
        REQUIRE(answers.size() == 1);
        return answers[0];
    }

    ReducerFixture f;
};

}  // namespace

TEST_CASE("operands of different sizes make a union of its own size") {
    Union u;
    u.arrive(1, content({{2, 20}, {7, 70}, {9, 90}}));
    u.arrive(0, content({{7, 7}}));
    const Answer answer = u.answer();
    CHECK(!answer.error);
    CHECK(answer.elements == 77);
    CHECK(answer.content == content({{2, 20}, {7, 77}, {9, 90}}));
    u.f.check_nothing_left();
}

TEST_CASE("the union of empty operands is empty") {
    Union u;
    u.arrive(0, content({}));
    u.arrive(1, content({}));
    CHECK(u.answer().content == content({}));
}

TEST_CASE("malformed pair content is counted and reported with its rank") {
    Union u;
    u.arrive(0, content({{1, 1}}));
    SUBCASE("keys out of order") { u.arrive(1, content({{5, 1}, {4, 1}})); }
    SUBCASE("truncated") {
        auto bytes = content({{5, 1}, {6, 1}});
        bytes.pop_back();
        u.arrive(1, bytes);
    }
    SUBCASE("empty") { u.arrive(1, {}); }
    const Answer answer = u.answer();
    CHECK(answer.error == kMismatch);
    CHECK(answer.text().starts_with("rank 1 sends "));
    CHECK(u.f.reducer.counters().mismatches == 1);
    u.f.check_nothing_left();
}

TEST_CASE("a union that fits in no packet is an error, not a part of it") {
    PairList left;
    PairList right;
    for (std::uint64_t key = 0; key < 3000; ++key) {
        left.emplace_back(2 * key, 1);
        right.emplace_back(2 * key + 1, 1);
    }
    Union u;
    u.arrive(0, content(left));
    u.arrive(1, content(right));
    const Answer answer = u.answer();
    CHECK(answer.error == kOverflow);
    CHECK(answer.text().find("fits in no packet") != std::string::npos);
    u.f.check_nothing_left();
}

}  // namespace innet::reduction::test
