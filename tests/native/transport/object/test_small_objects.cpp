// Objects that their root manifest has within it.

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;
using test::join;
using test::signed_data;
using test::tlv;

namespace {

Bytes number(std::uint32_t type, std::uint8_t value) { return tlv(type, {Bytes{value}}); }

/// A root of an object of one segment that says `said` of its size, with `within` in it.
Bytes root_of(std::uint8_t said, const Bytes& within) {
    return signed_data(
        *key_of("h1"), name("/j/g0/obj/1/model/32=manifest/seg=0"),
        join({number(wire::kManifestSegments, 1), number(wire::kManifestFanOut, 2),
              number(wire::kManifestObjectBytes, said), number(wire::kManifestSegmentBytes, 100),
              tlv(wire::kManifestDigests, {Bytes(32)}), tlv(wire::kManifestObject, {within})}),
        wire::ContentType::kManifest);
}

}  // namespace

TEST_CASE("a small object takes one packet, and a larger one those of its segments") {
    for (const auto& [size, packets] :
         {std::pair<std::size_t, std::size_t>{0, 1}, {1, 1}, {1024, 1}, {1025, 2}}) {
        CAPTURE(size);
        ObjectHosts hosts(9000);
        const Bytes bytes = some_bytes(size);
        hosts.publish(bytes);
        REQUIRE(hosts.carry(hosts.start_fetch())->status == OperationStatus::kDone);
        CHECK(hosts.fetched() == bytes);
        CHECK(hosts.asked.size() == packets);
    }
}

TEST_CASE("an object that does not fit its root's packet is not embedded") {
    ObjectHosts hosts(400);
    hosts.publish(some_bytes(200));
    REQUIRE(hosts.carry(hosts.start_fetch())->status == OperationStatus::kDone);
    CHECK(hosts.fetched() == some_bytes(200));
    CHECK(hosts.asked.size() > 1);
}

TEST_CASE("a reader without embedded objects fetches the listed segment") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(100));
    const PacketRef root = hosts.publisher.endpoint.object_root(hosts.object);
    const auto listed =
        security::ManifestVerifier::from_verified_root(*wire::DataView::parse(root.bytes()))
            ->listed_by(0, 1);
    const Production made = hosts.publisher.produce(
        name("/j/g0/obj/1/model/seg=0").append(wire::kImplicitSha256Digest, listed[0]));
    REQUIRE(made.kind == Production::Kind::kData);
    const auto content = wire::DataView::parse(made.data.bytes())->content();
    CHECK(Bytes(content.begin(), content.end()) == some_bytes(100));
}

TEST_CASE("a root whose embedded object does not match its digests is refused") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{39}, std::size_t{41}}) {
        CAPTURE(size);
        ObjectHosts hosts;
        hosts.publish(some_bytes(100));
        const Bytes root = root_of(40, some_bytes(size));
        const auto* ended =
            hosts.carry(hosts.start_fetch(), [&](const Bytes&) { return Packets{root}; });
        CHECK(ended->status == OperationStatus::kAborted);
        CHECK(ended->detail.find("is malformed") != std::string::npos);
    }
}

TEST_CASE("memory of another size than a small object's is a mismatch, and stays as it is") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(100));
    Bytes into(99, 7);
    hosts.memory = std::make_shared<ObjectMemory>(into);
    CHECK(hosts.carry(hosts.start_fetch())->status == OperationStatus::kMismatch);
    CHECK(into == Bytes(99, 7));
}

TEST_CASE("a small object is where its root is, aligned as others are, and counts with both") {
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{1024}}) {
        CAPTURE(size);
        ObjectHosts hosts(9000);
        hosts.publish(some_bytes(size));
        REQUIRE(hosts.carry(hosts.start_fetch())->status == OperationStatus::kDone);
        const auto bytes = hosts.memory->bytes();
        const auto root = hosts.memory->root();
        CHECK(bytes.data() > root.data());
        CHECK(bytes.data() + bytes.size() <= root.data() + root.size());
        CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0);
        CHECK(hosts.memory->charge() == size + root.size() + kBookkeepingBytes);
    }
}
