// Objects whose segments are tagged: who has the key checks them by their tags, and everybody else
// by their digests.

#include <array>

#include "object_hosts.hpp"
#include "transport/security/segment_tagger.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

const wire::Name kPrefix = name("/j/g0/obj/1");

std::shared_ptr<security::SegmentTagger> tagger_of(std::uint8_t key) {
    std::array<std::uint8_t, security::SegmentTagger::kKeySize> bytes{};
    bytes.fill(key);
    return std::make_shared<security::SegmentTagger>(bytes);
}

struct TaggedHosts : ObjectHosts {
    /// 0: that side has no key.
    TaggedHosts(std::uint8_t publishers, std::uint8_t fetchers) {
        publisher.endpoint.register_objects(kPrefix, "1", MissingObject::kWait,
                                            publishers ? tagger_of(publishers) : nullptr);
        fetcher.endpoint.register_objects(kPrefix, "2", MissingObject::kWait,
                                          fetchers ? tagger_of(fetchers) : nullptr);
    }
};

wire::DataView view_of(const Bytes& packet) { return *wire::DataView::parse(packet); }

bool is_segment(const Bytes& packet) {
    return view_of(packet).content_type() == wire::ContentType::kBlob;
}

}  // namespace

TEST_CASE("a key holder verifies a segment by its tag, others by hashing") {
    for (const std::uint8_t key : std::array<std::uint8_t, 3>{1, 2, 0}) {
        CAPTURE(key);
        TaggedHosts hosts(1, key);
        const Bytes bytes = some_bytes(10'000);
        hosts.publish(bytes);
        std::size_t told = 0;
        std::size_t segments = 0;
        const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
            if (!is_segment(packet)) return Packets{packet};
            ++segments;
            const auto data = view_of(packet);
            CHECK(hosts.fetcher.endpoint.can_tell_digest(data.name()) == (key != 0));
            const auto* digest = hosts.fetcher.endpoint.told_digest(data);
            told += digest != nullptr ? 1 : 0;
            if (digest != nullptr) CHECK(*digest == security::Sha256().digest(packet));
            return Packets{packet};
        });
        REQUIRE(ended->status == OperationStatus::kDone);
        CHECK(hosts.fetched() == bytes);
        CHECK(segments > 5);
        CHECK(told == (key == 1 ? segments : 0));
    }
}

TEST_CASE("no flipped bit of a segment has its tag") {
    TaggedHosts hosts(1, 1);
    const Bytes bytes = some_bytes(12'000);
    hosts.publish(bytes);
    std::size_t bit = 0;
    std::size_t tried = 0;
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        if (!is_segment(packet)) return Packets{packet};
        for (int i = 0; i < 200; ++i) {
            Bytes damaged = packet;
            bit = (bit + 7919) % (damaged.size() * 8);
            damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
            const auto data = wire::DataView::parse(damaged);
            if (!data) continue;
            ++tried;
            CHECK(hosts.fetcher.endpoint.told_digest(*data) == nullptr);
        }
        return Packets{packet};
    });
    CHECK(ended->status == OperationStatus::kDone);
    CHECK(tried > 1000);
}

TEST_CASE("an object that was never requested has no tag") {
    TaggedHosts hosts(1, 1);
    hosts.publish(some_bytes(10'000));
    std::vector<Bytes> packets;
    hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        packets.push_back(packet);
        return Packets{packet};
    });
    for (const Bytes& packet : packets) {
        CHECK_FALSE(hosts.fetcher.endpoint.can_tell_digest(view_of(packet).name()));
        CHECK(hosts.fetcher.endpoint.told_digest(view_of(packet)) == nullptr);
    }
}

TEST_CASE("a packet beyond an object's segments is not a segment of the fetched object") {
    TaggedHosts hosts(1, 1);
    hosts.publish(some_bytes(10'000));
    const auto absent = std::make_shared<ObjectMemory>();
    hosts.fetcher.endpoint.fetch_object(
        99, {name("/j/g0/obj/1/other"), name("/n/h1"), name("/n/h1/KEY"), absent, TimePoint(2h)},
        hosts.fetcher.now);
    std::size_t tried = 0;
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        if (!is_segment(packet)) return Packets{packet};
        for (unsigned bit = 20; bit < 64; ++bit) {
            const auto segment = view_of(packet).name().last_component();
            wire::Name far(view_of(packet).name().parent());
            far.append_number(wire::kSegmentComponent,
                              *wire::read_nonnegative(segment.value) | std::uint64_t{1} << bit);
            const Bytes forged = test::signed_data(*security::make_null_signer(), far, {});
            CHECK_FALSE(hosts.fetcher.endpoint.can_tell_digest(far.view()));
            CHECK(hosts.fetcher.endpoint.told_digest(view_of(forged)) == nullptr);
            ++tried;
        }
        return Packets{packet};
    });
    CHECK(ended->status == OperationStatus::kDone);
    CHECK(tried > 0);
}

TEST_CASE("an object with more segments than a root has room for is published without tags") {
    TaggedHosts hosts(1, 1);
    const Bytes bytes = some_bytes(60'000);
    REQUIRE(hosts.publish(bytes)->status == OperationStatus::kDone);
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        CHECK_FALSE(hosts.fetcher.endpoint.can_tell_digest(view_of(packet).name()));
        return Packets{packet};
    });
    CHECK(ended->status == OperationStatus::kDone);
    CHECK(hosts.fetched() == bytes);
}

TEST_CASE("a block has the same packets wherever it is published, lent or copied") {
    const Bytes bytes = some_bytes(10'000);
    std::vector<Bytes> roots;
    for (const bool lend : {false, true}) {
        TaggedHosts hosts(1, 0);
        ObjectSpec spec{hosts.object, bytes, hosts.packet_bytes};
        if (lend) spec.lent = std::make_shared<int>(0);
        hosts.publisher.endpoint.publish_object(1, spec, key_of("h1"));
        while (hosts.publisher.completion(1) == nullptr) {
            hosts.publisher.endpoint.on_timer(hosts.publisher.now);
        }
        const PacketRef root = hosts.publisher.endpoint.object_root(hosts.object);
        roots.emplace_back(root.bytes().begin(), root.bytes().end());
        const auto verifier = security::ManifestVerifier::from_verified_root(view_of(roots.back()));
        REQUIRE(verifier);
        CHECK(verifier->tags().size() == verifier->tree().segments());
    }
    CHECK(roots[0] == roots[1]);
}

TEST_CASE("a key holder verifies an awaited root by its tag") {
    for (const std::uint8_t key : std::array<std::uint8_t, 3>{1, 2, 0}) {
        for (const std::size_t size : {100, 10'000, 60'000}) {
            CAPTURE(key);
            CAPTURE(size);
            TaggedHosts hosts(1, key);
            hosts.publish(some_bytes(size));
            Bytes root;
            const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
                if (root.empty()) {
                    root = packet;
                    CHECK(hosts.fetcher.endpoint.vouches_for(view_of(root)) == (key == 1));
                }
                return Packets{packet};
            });
            REQUIRE(ended->status == OperationStatus::kDone);
            CHECK(hosts.fetched() == some_bytes(size));
            CHECK_FALSE(hosts.fetcher.endpoint.vouches_for(view_of(root)));
        }
    }
}

TEST_CASE("a root's tag is for all that is in it, and for a root of the right key's name") {
    TaggedHosts hosts(1, 1);
    hosts.publish(some_bytes(10'000));
    hosts.start_fetch();
    const PacketRef packet = hosts.publisher.endpoint.object_root(hosts.object);
    const Bytes root(packet.bytes().begin(), packet.bytes().end());
    const auto content = view_of(root).content();
    const auto begin = static_cast<std::size_t>(content.data() - view_of(root).whole().data());
    int tried = 0;
    for (std::size_t i = 0; i < root.size(); ++i) {
        Bytes damaged = root;
        damaged[i] ^= 1;
        const auto data = wire::DataView::parse(damaged);
        if (!data) continue;
        ++tried;
        CAPTURE(i);
        const bool vouched = hosts.fetcher.endpoint.vouches_for(*data);
        // Neither the signature nor when it expires is anything to who has the tag.
        if (i >= begin && i < begin + content.size()) CHECK_FALSE(vouched);
        if (data->name() != view_of(root).name()) CHECK_FALSE(vouched);
        if (data->key_name() != view_of(root).key_name()) CHECK_FALSE(vouched);
    }
    CHECK(tried > 400);
}

TEST_CASE("a root with tags stays within the packet limit of foreign clients") {
    for (const std::size_t size : {std::size_t{2'000'000}, std::size_t{3'500'000}}) {
        CAPTURE(size);
        TaggedHosts hosts(1, 0);
        hosts.packet_bytes = 16'000;
        hosts.publish(some_bytes(size));
        const PacketRef root = hosts.publisher.endpoint.object_root(hosts.object);
        CHECK(root.size() <= 8800);
        const auto data = wire::DataView::parse(root.bytes());
        REQUIRE(data);
        const auto verifier = security::ManifestVerifier::from_verified_root(*data);
        REQUIRE(verifier);
        CHECK(verifier->tags().empty() == (size > 3'000'000));
    }
}
