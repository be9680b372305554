// Damaged commands: answered, refused or dropped, and nothing else.

#include <doctest/doctest.h>

#include <random>

#include "command_vectors.hpp"
#include "managed_node.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

/// One byte changed, some left out, or some doubled.
Bytes damaged(const Bytes& packet, std::mt19937_64& random) {
    Bytes other = packet;
    const std::size_t place = random() % other.size();
    const auto at = other.begin() + static_cast<std::ptrdiff_t>(place);
    const auto length = static_cast<std::ptrdiff_t>(random() % (other.size() - place)) % 5;
    switch (random() % 3) {
        case 0:
            *at = static_cast<std::uint8_t>(random());
            break;
        case 1:
            other.erase(at, at + length);
            break;
        default:
            const Bytes doubled(at, at + length);
            other.insert(at, doubled.begin(), doubled.end());
    }
    return other;
}

/// The Interest and its name get lengths that fit again, so that damage reaches what is inside.
Bytes around(wire::ByteView name_value, wire::ByteView rest) {
    return test::tlv(wire::kInterest,
                     {test::tlv(wire::kName, {Bytes(name_value.begin(), name_value.end())}),
                      Bytes(rest.begin(), rest.end())});
}

}  // namespace

TEST_CASE("damaged commands do no harm") {
    std::mt19937_64 random(20261121);
    ManagedNode managed;
    for (const Bytes& packet : {kRegister, kOlderRegister, kUnregister, kAnnounce, kFacesQuery}) {
        const auto interest = wire::InterestView::parse(packet);
        REQUIRE(interest);
        const wire::ByteView name_view = interest->name().value();
        const Bytes name_value(name_view.begin(), name_view.end());
        const wire::ByteView rest(name_view.data() + name_view.size(),
                                  packet.data() + packet.size());
        for (int round = 0; round < 1500; ++round) {
            const Bytes next = round % 2 == 0 ? damaged(packet, random)
                                              : around(damaged(name_value, random), rest);
            managed.receive(2, next);
            CHECK(managed.node.sent(2).size() <= 1);
        }
    }
    CHECK(managed.management.counters().malformed > 0);
    // Whatever got through is a route of who asked, and goes with it.
    managed.node.node.close_face(2, managed.node.now);
    CHECK(managed.management.counters().routes == 0);
    AuditReport report;
    managed.node.node.audit(report);
    CHECK(report.complaints().empty());
}
