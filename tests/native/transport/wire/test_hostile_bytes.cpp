// Whatever bytes come from a link: a parser says no, or gives a view whose accessors all hold.

#include <doctest/doctest.h>

#include <random>

#include "tests/native/support/elements.hpp"
#include "tests/native/support/packet_properties.hpp"

using namespace innet::wire;
using innet::test::Bytes;
using innet::test::from_hex;

namespace {

const std::vector<Bytes>& valid_packets() {
    static const std::vector<Bytes> packets = {
        from_hex(
            "053a071408056c6f63616c08036e646e0806707265666978210012001e12070708016e08027330070708"
            "016e080273310a04010203040c010a220101"),
        from_hex(
            "057b072e08056c6f63616c08036e646e022087a59c694fc4561ae22a9d900509e700b9ff0f1ab5435a8f"
            "e6f884b28aec2deb0a046c2111660c020fa02404010203042c171b01002608363a2d4231cefde6280800"
            "0001a1fb245e472e209772d58561269854c61a16082fb9d7f0dd9110ce77dc61771b220d1a1b05c278"),
        from_hex(
            "065b070f08036a6f6208026730080133320109140618010019010a15086772616469656e7416141b0104"
            "1c0f070d08036a6f6208034b45590801311720eca03228f1165cc82a14c3e05114a840683975eee501c7"
            "0af98a7ef05314828c"),
        from_hex("0647070d0805766964656f360103320100140d180102190203e81a043202012c150016031b0100172"
                 "02e808ddb875637aac634475e5d3a8b13ed9d6c7134d6754c0bef5b6c061ea36a"),
        from_hex("642dfd032005fd0321019650220520071408056c6f63616c08036e646e0806707265666978"
                 "0a04010203040c0203e8"),
        from_hex("642e5108000000000000000152010053010262040102030"
                 "4fd032000fd03400101fd039001335008a0a1a2a3a4a5a6a7"),
    };
    return packets;
}

/// Random damage, mostly to the bytes that say how long things are.
class Mutator {
  public:
    explicit Mutator(std::uint64_t seed) : random_(seed) {}

    Bytes damaged(Bytes packet) {
        for (std::size_t edits = 1 + below(4); edits > 0 && !packet.empty(); --edits) edit(packet);
        return packet;
    }

    std::size_t below(std::size_t bound) { return random_() % bound; }

  private:
    void edit(Bytes& packet) {
        const std::size_t at = below(packet.size());
        const auto position = packet.begin() + static_cast<std::ptrdiff_t>(at);
        static constexpr std::uint8_t kTelling[] = {0, 1, 2, 4, 8, 32, 33, 252, 253, 254, 255};
        switch (below(5)) {
            case 0:
                packet[at] = static_cast<std::uint8_t>(random_());
                break;
            case 1:
                packet[at] = kTelling[below(std::size(kTelling))];
                break;
            case 2:
                packet.insert(position, static_cast<std::uint8_t>(random_()));
                break;
            case 3:
                packet.erase(position);
                break;
            default:
                repair_length(packet, at);
                break;
        }
    }

    /// Makes the outer length right again, so that damage inside is reached.
    static void repair_length(Bytes& packet, std::size_t at) {
        packet[at] ^= 1;
        if (packet.size() >= 2 && packet.size() - 2 < 253) {
            packet[1] = static_cast<std::uint8_t>(packet.size() - 2);
        }
    }

    std::mt19937_64 random_;
};

void check_properties(ByteView packet) {
    const char* violated = innet::test::PacketProperties::violated_by(packet);
    CAPTURE(violated);
    CHECK(violated == nullptr);
}

/// A copy on the heap of just this size, so that a sanitizer sees one byte too far.
Bytes tight(ByteView bytes) { return Bytes(bytes.begin(), bytes.end()); }

}  // namespace

TEST_CASE("the packets that the damage starts from are valid") {
    for (const Bytes& packet : valid_packets()) {
        CHECK((LpView::parse(packet) || InterestView::parse(packet) || DataView::parse(packet)));
        check_properties(packet);
    }
}

TEST_CASE("a packet truncated anywhere is refused") {
    for (const Bytes& packet : valid_packets()) {
        for (std::size_t size = 0; size < packet.size(); ++size) {
            CAPTURE(size);
            const Bytes cut = tight(ByteView(packet).first(size));
            CHECK_FALSE(LpView::parse(cut));
            CHECK_FALSE(InterestView::parse(cut));
            CHECK_FALSE(DataView::parse(cut));
        }
    }
}

TEST_CASE("a packet truncated anywhere, with a matching outer length, is refused or read safely") {
    for (const Bytes& packet : valid_packets()) {
        for (std::size_t size = 2; size < packet.size(); ++size) {
            Bytes cut = tight(ByteView(packet).first(size));
            cut[1] = static_cast<std::uint8_t>(size - 2);
            check_properties(cut);
        }
    }
}

TEST_CASE("damaged packets are refused or read without harm") {
    constexpr std::uint64_t kSeed = 20240229;
    MESSAGE("seed " << kSeed);
    Mutator mutator(kSeed);
    for (int round = 0; round < 100'000; ++round) {
        const Bytes& original = valid_packets()[mutator.below(valid_packets().size())];
        check_properties(tight(mutator.damaged(original)));
    }
}
