#include <random>
#include <set>

#include "tests/native/switch_emulator/reduction/reducer_fixture.hpp"

namespace innet::reduction::test {

namespace {

constexpr std::uint64_t kSegments = 12;

/// What a rank contributes to a segment: values whose sum depends on the order of adding.
float contribution(unsigned rank, std::uint64_t segment) {
    constexpr std::array<float, 4> kScales{1e8F, 1.0F, -1e8F, 0.1F};
    return kScales[rank] + static_cast<float>(segment);
}

/// A network that loses, holds, refuses and reorders, and askers that come and go. Knows who waits.
class Storm {
  public:
    explicit Storm(std::uint64_t seed)
        : random_(seed), fixture_(1 + static_cast<std::uint32_t>(seed % 5)) {
        fixture_.reducer.install(rule_of("0-1", {{"0", "h0"}, {"1", "h1"}}));
        fixture_.reducer.install(rule_of("0-3", {{"0-1", "s0"}, {"2", "h2"}, {"3", "h3"}}));
    }

    void step() {
        switch (below(10)) {
            case 0:
            case 1:
                return ask();
            case 2:
                return fixture_.pass(std::chrono::milliseconds(below(50)));
            case 3:
                return with_random_operand(
                    [&](const std::string& uri) { fixture_.hold(uri, uri.substr(8, 1)); });
            case 4:
                if (below(4) == 0) return abandon();
                return with_random_operand([&](const std::string& uri) {
                    fixture_.nack(uri, below(2) == 0 ? wire::NackReason::kNoRoute
                                                     : wire::NackReason::kCongestion);
                });
            default:
                return with_random_operand([&](const std::string& uri) { deliver(uri); });
        }
    }

    /// Takes what the reducer did: every answer must be right and wanted.
    void settle() {
        for (const Answer& answer : fixture_.answers()) {
            CHECK(waiting_.erase(answer.name) == 1);
            CHECK(!answer.error);
            CHECK(answer.as<float>() == std::vector<float>{value_of(answer.name)});
            ++answered_;
        }
        for (const auto& nacked : fixture_.forwarder.nacked) {
            CHECK(waiting_.erase(nacked.name) == 1);
        }
        for (const auto& asked : fixture_.forwarder.asked) outstanding_.insert(asked.name);
        fixture_.forwarder.nacked.clear();
        fixture_.forwarder.asked.clear();
        CHECK(fixture_.reducer.counters().slots_in_use <= waiting_.size());
    }

    void end() {
        while (!waiting_.empty()) abandon();
        fixture_.check_nothing_left();
    }

    std::uint64_t answered() const { return answered_; }

  private:
    std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

    static float value_of(const std::string& uri) {
        const std::uint64_t segment = std::stoull(uri.substr(uri.find("seg=") + 4));
        const float pair = contribution(0, segment) + contribution(1, segment);
        if (uri.starts_with("/job/g0/0-1/")) return pair;
        if (uri.starts_with("/job/g0/0-3/")) {
            return pair + contribution(2, segment) + contribution(3, segment);
        }
        return contribution(static_cast<unsigned>(uri[8] - '0'), segment);
    }

    void ask() {
        const std::string uri =
            fixture_.operand_uri(below(2) == 0 ? "0-1" : "0-3", below(kSegments));
        if (fixture_.admit(uri) == Admission::kAccepted) waiting_.insert(uri);
    }

    void abandon() {
        if (waiting_.empty()) return;
        const auto victim = std::next(waiting_.begin(), static_cast<long>(below(waiting_.size())));
        fixture_.reducer.abandon(name_of(*victim).view());
        waiting_.erase(victim);
    }

    void deliver(const std::string& uri) {
        // Sometimes twice, and sometimes it is lost.
        if (below(8) != 0) outstanding_.erase(uri);
        if (below(8) != 0) fixture_.arrive(std::string(uri), std::vector<float>{value_of(uri)});
    }

    template <typename Action>
    void with_random_operand(Action action) {
        if (outstanding_.empty()) return;
        const std::string uri =
            *std::next(outstanding_.begin(), static_cast<long>(below(outstanding_.size())));
        action(uri);
    }

    std::mt19937_64 random_;
    ReducerFixture fixture_;
    std::set<std::string> waiting_;
    std::set<std::string> outstanding_;
    std::uint64_t answered_ = 0;
};

}  // namespace

TEST_CASE("over any network, answers are correct and requested, and no state stays behind") {
    std::uint64_t answered = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        CAPTURE(seed);
        Storm storm(seed);
        for (int step = 0; step < 400; ++step) {
            storm.step();
            storm.settle();
        }
        storm.end();
        answered += storm.answered();
    }
    CHECK(answered > 1000);
}

}  // namespace innet::reduction::test
