// Publishing again what somebody else signed: only just those bytes under just that name.

#include <random>

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

/// Of the seed that `key_of` uses.
const Bytes kPublicKey{0xfd, 0x17, 0x24, 0x38, 0x5a, 0xa0, 0xc7, 0x5b, 0x64, 0xfb, 0x78,
                       0xcd, 0x60, 0x2f, 0xa1, 0xd9, 0x91, 0xfd, 0xeb, 0xf7, 0x6b, 0x13,
                       0xc5, 0x8e, 0xd7, 0x02, 0xea, 0xc8, 0x35, 0xe9, 0xf6, 0x18};

/// Another node that gets objects of `/j/g0/obj/1` under roots that rank 1's node signed.
struct Replica : ObjectHosts {
    Replica() {
        replica.endpoint.register_objects(name("/j/g0"), "2", MissingObject::kRefuse);
        REQUIRE(
            keyring.add(wire::SignatureType::kEd25519, name("/n/h1/KEY"), kPublicKey, name("/j")));
        keyring.accept_digest(true);
    }

    Bytes root_of(const wire::Name& published) {
        const PacketRef root = publisher.endpoint.object_root(published);
        return {root.bytes().begin(), root.bytes().end()};
    }

    OperationStatus seal(const Bytes& bytes, const Bytes& root,
                         const wire::Name& as = name("/j/g0/obj/1/model"),
                         std::size_t limit = 9000) {
        const OperationId id = next_id++;
        replica.endpoint.publish_sealed_object(id, {{as, bytes, limit}, root}, keyring);
        while (replica.completion(id) == nullptr) replica.endpoint.on_timer(replica.now);
        return replica.completion(id)->status;
    }

    ObjectHost replica{"h3"};
    security::Keyring keyring;
};

}  // namespace

TEST_CASE("a replica serves the very packets that the producer signed") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000},
                                   std::size_t{1'500'000}}) {  // the last has three levels
        CAPTURE(size);
        Replica f;
        const Bytes bytes = some_bytes(size);
        f.publish(bytes);
        REQUIRE(f.seal(bytes, f.root_of(f.object)) == OperationStatus::kDone);
        const auto* ended = f.carry(f.start_fetch());
        REQUIRE(ended->status == OperationStatus::kDone);
        for (const wire::Name& packet : f.asked) {
            const Production from_replica = f.replica.produce(packet);
            REQUIRE(from_replica.kind == Production::Kind::kData);
            CHECK(std::ranges::equal(from_replica.data.bytes(),
                                     f.publisher.produce(packet).data.bytes()));
        }
        CHECK(std::ranges::equal(f.memory->root(), f.root_of(f.object)));
    }
}

TEST_CASE("other bytes, names, sizes and keys than those signed are untrusted") {
    Replica f;
    const Bytes bytes = some_bytes(50'000);
    f.publish(bytes);
    const Bytes root = f.root_of(f.object);
    Bytes damaged = bytes;
    damaged[40'000] ^= 1;
    CHECK(f.seal(damaged, root) == OperationStatus::kUntrusted);
    CHECK(f.seal(some_bytes(49'999), root) == OperationStatus::kUntrusted);
    CHECK(f.seal({}, root) == OperationStatus::kUntrusted);
    CHECK(f.seal(bytes, root, name("/j/g0/obj/1/other")) == OperationStatus::kUntrusted);
    CHECK(f.seal(bytes, root, f.object, 600) == OperationStatus::kUntrusted);  // too large packets
    f.publish(bytes, "h2", name("/j/g0/obj/1/foreign"));
    CHECK(f.seal(bytes, f.root_of(name("/j/g0/obj/1/foreign")), name("/j/g0/obj/1/foreign")) ==
          OperationStatus::kUntrusted);
    CHECK(f.replica.produce(name("/j/g0/obj/1/model/32=manifest/seg=0")).kind ==
          Production::Kind::kAbsent);
    CHECK(f.seal(bytes, root, name("/elsewhere/model")) == OperationStatus::kAborted);
    CHECK(f.seal(bytes, root) == OperationStatus::kDone);
    CHECK(f.seal(bytes, root) == OperationStatus::kAborted);  // it is there already
}

TEST_CASE("a digest in place of a key's signature is untrusted even where digests are accepted") {
    Replica f;
    const Bytes bytes = some_bytes(100);
    f.publish(bytes);
    const Bytes root = f.root_of(f.object);
    const auto content = wire::DataView::parse(root)->content();
    const Bytes forged = test::signed_data(
        *security::make_digest_signer(), name("/j/g0/obj/1/model/32=manifest/seg=0"),
        Bytes(content.begin(), content.end()), wire::ContentType::kManifest);
    CHECK(f.seal(bytes, forged) == OperationStatus::kUntrusted);
}

TEST_CASE("publishing ends for any numbers in a validly signed root") {
    Replica f;
    const Bytes bytes = some_bytes(100);
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        Bytes content;
        for (const std::uint32_t type : {wire::kManifestSegments, wire::kManifestFanOut,
                                         wire::kManifestObjectBytes, wire::kManifestSegmentBytes}) {
            if (random() % 8 == 0) continue;
            Bytes value(std::size_t{1} << (random() % 4));
            for (auto& byte : value) {
                byte = static_cast<std::uint8_t>(random() % 2 == 0 ? random() : random() % 3);
            }
            if (random() % 2 == 0) value = {static_cast<std::uint8_t>(random() % 2 == 0 ? 100 : 2)};
            content = test::join({content, test::tlv(type, {value})});
        }
        const Bytes digests(32 * (random() % 4));
        content = test::join({content, test::tlv(wire::kManifestDigests, {digests})});
        const Bytes root =
            test::signed_data(*key_of("h1"), name("/j/g0/obj/1/model/32=manifest/seg=0"), content,
                              wire::ContentType::kManifest);
        CHECK(f.seal(bytes, root) == OperationStatus::kUntrusted);
    }
}

TEST_CASE("damaged and truncated roots are untrusted") {
    Replica f;
    const Bytes bytes = some_bytes(5000);
    f.publish(bytes);
    const Bytes root = f.root_of(f.object);
    for (std::size_t size = 0; size < root.size(); size += 3) {
        CHECK(
            f.seal(bytes, Bytes(root.begin(), root.begin() + static_cast<std::ptrdiff_t>(size))) ==
            OperationStatus::kUntrusted);
    }
    for (std::size_t place = 0; place < root.size(); ++place) {
        Bytes damaged = root;
        damaged[place] ^= 0x11;
        CHECK(f.seal(bytes, damaged) == OperationStatus::kUntrusted);
    }
}

TEST_CASE("a fetched object is republished in the same packets without hashing") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{5000}, std::size_t{1'500'000}}) {
        CAPTURE(size);
        Replica f;
        const Bytes bytes = some_bytes(size);
        f.publish(bytes);
        REQUIRE(f.carry(f.start_fetch())->status == OperationStatus::kDone);
        const ObjectMemory& memory = *f.memory;
        CHECK(memory.is_complete());
        f.replica.endpoint.publish_sealed_object(
            90, {{f.object, memory.bytes(), 9000}, memory.root(), memory.digests()}, f.keyring);
        while (f.replica.completion(90) == nullptr) f.replica.endpoint.on_timer(f.replica.now);
        REQUIRE(f.replica.completion(90)->status == OperationStatus::kDone);
        for (const wire::Name& packet : f.asked) {
            const Production from_replica = f.replica.produce(packet);
            REQUIRE(from_replica.kind == Production::Kind::kData);
            CHECK(std::ranges::equal(from_replica.data.bytes(),
                                     f.publisher.produce(packet).data.bytes()));
        }
    }
}

TEST_CASE("digests that the root does not list are untrusted") {
    Replica f;
    const Bytes bytes = some_bytes(50'000);
    f.publish(bytes);
    REQUIRE(f.carry(f.start_fetch())->status == OperationStatus::kDone);
    std::vector<security::Sha256Digest> digests(f.memory->digests().begin(),
                                                f.memory->digests().end());
    digests[3][5] ^= 1;
    f.replica.endpoint.publish_sealed_object(
        90, {{f.object, f.memory->bytes(), 9000}, f.memory->root(), digests}, f.keyring);
    while (f.replica.completion(90) == nullptr) f.replica.endpoint.on_timer(f.replica.now);
    CHECK(f.replica.completion(90)->status == OperationStatus::kUntrusted);
}

TEST_CASE("a fetched root is served only with a valid signature") {
    Replica f;
    const Bytes bytes = some_bytes(50'000);
    f.publish(bytes);
    REQUIRE(f.carry(f.start_fetch())->status == OperationStatus::kDone);
    Bytes root(f.memory->root().begin(), f.memory->root().end());
    root.back() ^= 1;  // in the signature, at which who goes by the tag does not look
    f.replica.endpoint.publish_sealed_object(
        90, {{f.object, f.memory->bytes(), 9000}, root, f.memory->digests()}, f.keyring);
    CHECK(f.replica.completion(90)->status == OperationStatus::kUntrusted);
}
