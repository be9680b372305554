// What a publisher of objects says to Interests, before, while and after an object is there.

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

wire::Name root_name() { return name("/j/g0/obj/1/model/32=manifest/seg=0"); }

/// `<uri>` with the implicit digest of the packet that the publisher gives for it.
wire::Name full_name(ObjectHosts& hosts, const std::string& uri) {
    const Production made = hosts.publisher.produce(name(uri));
    REQUIRE(made.kind == Production::Kind::kData);
    security::Sha256 sha256;
    return name(uri).append(wire::kImplicitSha256Digest, sha256.digest(made.data.bytes()));
}

}  // namespace

TEST_CASE("a request for an object is answered when it is published") {
    ObjectHosts hosts;
    const Production early = hosts.publisher.produce(root_name());
    REQUIRE(early.kind == Production::Kind::kPending);
    CHECK(std::string(early.missing.begin(), early.missing.end()) == "rank 1");
    hosts.publish(some_bytes(5000));
    REQUIRE(hosts.publisher.forwarder.put.size() == 1);
    const auto root = wire::DataView::parse(hosts.publisher.forwarder.put[0].bytes());
    CHECK(root->name() == root_name().view());
}

TEST_CASE("a packet is found by its name, and by its full name only with the right digest") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(50'000));
    for (const char* uri : {"/j/g0/obj/1/model/seg=0", "/j/g0/obj/1/model/seg=7",
                            "/j/g0/obj/1/model/32=manifest/seg=1"}) {
        CAPTURE(uri);
        const wire::Name full = full_name(hosts, uri);
        CHECK(hosts.publisher.produce(full).kind == Production::Kind::kData);
        const wire::Name wrong =
            name(uri).append(wire::kImplicitSha256Digest, security::Sha256Digest{});
        CHECK(hosts.publisher.produce(wrong).kind == Production::Kind::kNotMine);
    }
    for (const char* uri : {"/j/g0/obj/1/model/seg=999", "/j/g0/obj/1/model/32=manifest/seg=99",
                            "/j/g0/obj/1/model", "/j/g0/obj/1/other/seg=0"}) {
        CAPTURE(uri);
        CHECK(hosts.publisher.produce(name(uri)).kind == Production::Kind::kNotMine);
    }
}

TEST_CASE("an object larger than a slice is cut in several, and is there at its completion") {
    ObjectHosts hosts(9000);
    const Bytes bytes = some_bytes(1'000'000);
    hosts.publisher.endpoint.publish_object(77, {hosts.object, bytes, hosts.packet_bytes},
                                            key_of("h1"));
    int slices = 0;
    while (hosts.publisher.completion(77) == nullptr) {
        CHECK(hosts.publisher.produce(root_name()).kind == Production::Kind::kPending);
        CHECK(hosts.publisher.endpoint.next_deadline() <= hosts.publisher.now);
        hosts.publisher.endpoint.on_timer(hosts.publisher.now);
        ++slices;
    }
    CHECK(slices > 2);
    CHECK(hosts.publisher.produce(root_name()).kind == Production::Kind::kData);
    CHECK(hosts.publisher.endpoint.counters().retained_bytes >= bytes.size());
    CHECK(hosts.publisher.endpoint.next_deadline() == kNever);
}

TEST_CASE("the caller's bytes may change once the object is published") {
    ObjectHosts hosts;
    Bytes bytes = some_bytes(5000);
    hosts.publish(bytes);
    std::ranges::fill(bytes, std::uint8_t{0});
    REQUIRE(hosts.carry(hosts.start_fetch())->status == OperationStatus::kDone);
    CHECK(hosts.fetched() == some_bytes(5000));
}

TEST_CASE("a withdrawn object is removed, and its name can be used again") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(5000));
    const wire::Name segment = full_name(hosts, "/j/g0/obj/1/model/seg=0");
    hosts.publisher.endpoint.withdraw_object(hosts.object);
    CHECK(hosts.publisher.produce(segment).kind == Production::Kind::kNotMine);
    CHECK(hosts.publisher.produce(root_name()).kind == Production::Kind::kPending);
    CHECK(hosts.publish(some_bytes(10))->status == OperationStatus::kDone);
    CHECK(hosts.publisher.produce(segment).kind == Production::Kind::kNotMine);
    hosts.publisher.endpoint.unregister_objects(name("/j/g0/obj/1"));
    CHECK(hosts.publisher.produce(root_name()).kind == Production::Kind::kNotMine);
    CHECK(hosts.publisher.endpoint.counters().retained_bytes == 0);
}

TEST_CASE("with waiting disabled, unpublished and retired Data is absent") {
    ObjectHosts hosts;
    hosts.publisher.endpoint.register_objects(name("/j/g0/obj/1"), "1", MissingObject::kRefuse);
    CHECK(hosts.publisher.produce(root_name()).kind == Production::Kind::kAbsent);
    hosts.publish(some_bytes(5000));
    const wire::Name segment = full_name(hosts, "/j/g0/obj/1/model/seg=0");
    CHECK(hosts.publisher.produce(segment).kind == Production::Kind::kData);
    CHECK(hosts.publisher.endpoint.take_requested_objects().empty());
    hosts.publisher.produce(root_name());
    const auto asked = hosts.publisher.endpoint.take_requested_objects();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].name == hosts.object);
    CHECK(hosts.publisher.endpoint.take_requested_objects().empty());
    hosts.publisher.endpoint.withdraw_object(hosts.object);
    CHECK(hosts.publisher.produce(segment).kind == Production::Kind::kAbsent);
    CHECK(hosts.publisher.endpoint.take_requested_objects().empty());
}

TEST_CASE("a short object does not wait for a long one that is being cut") {
    ObjectHosts hosts(9000);
    Endpoint& endpoint = hosts.publisher.endpoint;
    const Bytes block = some_bytes(1'000'000);
    const Bytes answer = some_bytes(30);
    endpoint.publish_object(1, {hosts.object, block, hosts.packet_bytes}, key_of("h1"));
    const wire::Name answered = name("/j/g0/obj/1/answer");
    endpoint.publish_object(2, {answered, answer, hosts.packet_bytes}, key_of("h1"));
    endpoint.on_timer(hosts.publisher.now);
    CHECK(hosts.publisher.completion(2) != nullptr);
    CHECK(hosts.publisher.completion(1) == nullptr);
}

TEST_CASE("short objects that are hashed together have their own digests") {
    ObjectHosts hosts(9000);
    Endpoint& endpoint = hosts.publisher.endpoint;
    std::vector<Bytes> contents;
    for (std::size_t i = 0; i < 7; ++i) contents.push_back(some_bytes(30'000 + 5'000 * i));
    for (OperationId id = 0; id < contents.size(); ++id) {
        contents[id][0] = static_cast<std::uint8_t>(id);
        const wire::Name object = name("/j/g0/obj/1/block" + std::to_string(id));
        endpoint.publish_object(id + 1, {object, contents[id], hosts.packet_bytes}, key_of("h1"));
    }
    endpoint.withdraw_object(name("/j/g0/obj/1/block3"));
    endpoint.on_timer(hosts.publisher.now);
    // With lanes for several messages, one round takes as many objects as fill them.
    if (security::best_batch() > 8) CHECK(hosts.publisher.completion(2) != nullptr);
    while (endpoint.next_deadline() <= hosts.publisher.now) endpoint.on_timer(hosts.publisher.now);
    for (OperationId id = 0; id < contents.size(); ++id) {
        CAPTURE(id);
        const OperationCompletion* end = hosts.publisher.completion(id + 1);
        REQUIRE(end != nullptr);
        const bool is_withdrawn = id == 3;
        CHECK((end->status == OperationStatus::kCancelled) == is_withdrawn);
        if (is_withdrawn) continue;
        for (std::size_t segment = 0; segment < 4; ++segment) {
            const std::string uri =
                "/j/g0/obj/1/block" + std::to_string(id) + "/seg=" + std::to_string(segment);
            CHECK(hosts.publisher.produce(full_name(hosts, uri)).kind == Production::Kind::kData);
        }
    }
}

TEST_CASE("short objects without end do not keep a long one from being cut") {
    ObjectHosts hosts(9000);
    Endpoint& endpoint = hosts.publisher.endpoint;
    const Bytes block = some_bytes(1'000'000);
    const Bytes answer = some_bytes(30);
    endpoint.publish_object(1, {hosts.object, block, hosts.packet_bytes}, key_of("h1"));
    for (OperationId id = 2; id < 40; ++id) {
        const wire::Name answered = name("/j/g0/obj/1/answer" + std::to_string(id));
        endpoint.publish_object(id, {answered, answer, hosts.packet_bytes}, key_of("h1"));
        endpoint.on_timer(hosts.publisher.now);
    }
    CHECK(hosts.publisher.completion(1) != nullptr);
}

TEST_CASE("the segments of a thin object stand for as much as a packet may have") {
    PacketPool pool;
    auto signer = key_of("h1");
    const Bytes thin = some_bytes(2000);
    const ObjectSpec spec{name("/kv/block"), thin, 9000};
    const auto cut = ObjectCut::of(spec, *signer, 100);
    REQUIRE(cut);
    CHECK(cut->segmentation.segments() > 2000 * 100 / 9000);
    security::SerialHasher hasher;
    ObjectPublication object(spec, *cut, 100, pool, hasher, std::move(signer));
    while (object.advance(1 << 20) == ObjectPublication::Progress::kUnderWay) {
    }
    const wire::Name segment = name("/kv/block/seg=0");
    const auto published = object.take();
    const PacketRef packet = published->find(*SegmentName::parse_full(segment.view()));
    REQUIRE(packet);
    CHECK(packet.size() + packet.virtual_bytes() <= 9000);
    CHECK(packet.size() + packet.virtual_bytes() > 8000);
    CHECK(published->root().virtual_bytes() == 0);
    CHECK_FALSE(ObjectCut::of(spec, *key_of("h1"), 100'000));
}

TEST_CASE("names that cannot be published are refused with the reason") {
    ObjectHosts hosts(400);
    hosts.publish(some_bytes(10));
    const auto refusal = [&](const std::string& uri) {
        const auto* ended = hosts.publish(some_bytes(10), "h1", name(uri));
        CHECK(ended->status == OperationStatus::kAborted);
        return ended->detail;
    };
    CHECK(refusal("/j/g0/obj/1/model").find("published already") != std::string::npos);
    CHECK(refusal("/j/g0/obj/2/model").find("no prefix") != std::string::npos);
    CHECK(refusal("/j/g0/obj/1/" + std::string(250, 'x')).find("too long") != std::string::npos);
}

TEST_CASE("publishing can be cancelled or aborted, and then nothing is offered") {
    ObjectHosts hosts;
    const Bytes bytes = some_bytes(1'000'000);
    Endpoint& endpoint = hosts.publisher.endpoint;
    endpoint.publish_object(1, {hosts.object, bytes, 1024}, key_of("h1"));
    endpoint.cancel(1, hosts.publisher.now);
    CHECK(hosts.publisher.completion(1)->status == OperationStatus::kCancelled);
    endpoint.publish_object(2, {hosts.object, bytes, 1024}, key_of("h1"));
    endpoint.on_timer(hosts.publisher.now);
    endpoint.abort(wire::Name(), "rank 3 is gone", hosts.publisher.now);
    CHECK(hosts.publisher.completion(2)->detail == "rank 3 is gone");
    CHECK(hosts.publisher.produce(root_name()).kind == Production::Kind::kPending);
}
