// Objects whose bytes stay where they are: packets are made of them when they are asked for.

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

struct Lender : ObjectHosts {
    void lend(const std::shared_ptr<Bytes>& bytes) {
        ObjectSpec spec{object, *bytes, packet_bytes};
        spec.lent = bytes;
        publisher.endpoint.publish_object(50, spec, key_of("h1"));
        spec.lent.reset();
        while (publisher.completion(50) == nullptr) publisher.endpoint.on_timer(publisher.now);
        REQUIRE(publisher.completion(50)->status == OperationStatus::kDone);
    }
};

}  // namespace

TEST_CASE("lent bytes have the very packets that copied ones have") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000},
                                   std::size_t{300'000}}) {  // the last has two levels
        CAPTURE(size);
        const auto bytes = std::make_shared<Bytes>(some_bytes(size));
        Lender lender;
        lender.lend(bytes);
        ObjectHosts copier;
        copier.publish(*bytes);
        REQUIRE(lender.carry(lender.start_fetch())->status == OperationStatus::kDone);
        CHECK(lender.fetched() == *bytes);
        for (const wire::Name& packet : lender.asked) {
            const Production copied = copier.publisher.produce(packet);
            REQUIRE(copied.kind == Production::Kind::kData);
            CHECK(std::ranges::equal(copied.data.bytes(),
                                     lender.publisher.produce(packet).data.bytes()));
        }
    }
}

TEST_CASE("lent bytes are held as long as the object is there, and no longer") {
    const auto bytes = std::make_shared<Bytes>(some_bytes(50'000));
    Lender lender;
    lender.lend(bytes);
    CHECK(bytes.use_count() == 2);
    CHECK(lender.publisher.endpoint.counters().retained_bytes >= bytes->size());
    lender.publisher.endpoint.withdraw_object(lender.object);
    CHECK(bytes.use_count() == 1);
    CHECK(lender.publisher.endpoint.counters().retained_bytes == 0);
}

TEST_CASE("lent bytes that change fail verification") {
    const auto bytes = std::make_shared<Bytes>(some_bytes(50'000));
    Lender lender;
    lender.lend(bytes);
    (*bytes)[20'000] ^= 1;
    const OperationId id = lender.start_fetch();
    CHECK(lender.carry(id)->status == OperationStatus::kDeadlineExceeded);
}
