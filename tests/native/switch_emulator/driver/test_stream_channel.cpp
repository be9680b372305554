#include <doctest/doctest.h>
#include <sys/socket.h>

#include "foreign_client.hpp"
#include "switch_emulator/driver/stream_channel.hpp"

using namespace innet;
using namespace innet::testing;

TEST_CASE("a heavy sender gets fair turns and loses nothing") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    const driver::FileDescriptor sender(ends[0]);
    PacketPool pool;
    std::vector<PacketRef> packets;
    driver::StreamChannel channel(driver::FileDescriptor(ends[1]), kMaxForeignPacketBytes);
    Bytes many;
    std::uint32_t sent = 0;
    while (many.size() < 4 * driver::StreamChannel::kTurnBytes) {
        const Bytes packet = interest_packet("/flood/" + std::to_string(sent), sent + 1);
        many.insert(many.end(), packet.begin(), packet.end());
        ++sent;
    }
    REQUIRE(::send(sender.get(), many.data(), many.size(), 0) == static_cast<ssize_t>(many.size()));
    std::uint32_t received = 0;
    for (int turn = 0; received < sent; ++turn) {
        REQUIRE(turn < 6);
        channel.receive(pool, packets);
        CHECK_FALSE(packets.empty());
        std::size_t bytes = 0;
        for (const PacketRef& packet : packets) {
            const auto interest = wire::InterestView::parse(packet.bytes());
            REQUIRE(interest);
            CHECK(interest->nonce() == ++received);
            bytes += packet.size();
        }
        CHECK(bytes < driver::StreamChannel::kTurnBytes + 100);  // and the rest of one from before
        packets.clear();
    }
}
