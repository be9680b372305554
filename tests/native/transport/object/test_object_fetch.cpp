// Fetching an object: whole, verified, whatever happens to its packets on the way.

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;
using test::join;
using test::signed_data;
using test::tlv;

namespace {

constexpr auto kRoot = "/j/g0/obj/1/model/32=manifest/seg=0";

wire::DataView view_of(const Bytes& packet) { return *wire::DataView::parse(packet); }

bool is_manifest(const Bytes& packet) {
    return view_of(packet).content_type() == wire::ContentType::kManifest;
}

bool is_root(const Bytes& packet) {
    return view_of(packet).signature_type() == wire::SignatureType::kEd25519;
}

/// Another content under the name of `packet`, with a right DigestSha256 signature.
Bytes forged(const Bytes& packet, const Bytes& content) {
    const auto view = view_of(packet);
    return signed_data(*security::make_digest_signer(), wire::Name(view.name()), content,
                       view.content_type());
}

Bytes content_of(const Bytes& packet) {
    const auto content = view_of(packet).content();
    return {content.begin(), content.end()};
}

/// A fetch that gets this root, whatever was published.
const OperationCompletion* fetch_with_root(ObjectHosts& hosts, const Bytes& root) {
    hosts.publish(some_bytes(100));
    return hosts.carry(hosts.start_fetch(), [&](const Bytes&) { return Packets{root}; });
}

Bytes root_with(const Bytes& content) {
    return signed_data(*key_of("h1"), name(kRoot), content, wire::ContentType::kManifest);
}

Bytes number(std::uint32_t type, std::uint8_t value) { return tlv(type, {Bytes{value}}); }

}  // namespace

TEST_CASE("objects of any size arrive whole, with one signature and small packets") {
    const std::size_t segment =
        ObjectCut::of({name("/j/g0/obj/1/model"), {}, 1024}, *key_of("h1"), 1)
            ->segmentation.segment_bytes;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, segment - 1, segment,
                                   segment + 1, 40 * segment, std::size_t{1'500'000}}) {
        CAPTURE(size);
        ObjectHosts hosts;
        const Bytes bytes = some_bytes(size);
        REQUIRE(hosts.publish(bytes)->status == OperationStatus::kDone);
        int signatures = 0;
        const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
            signatures += is_root(packet) ? 1 : 0;
            return Packets{packet};
        });
        REQUIRE(ended != nullptr);
        CHECK(ended->detail == "");
        REQUIRE(ended->status == OperationStatus::kDone);
        CHECK(hosts.fetched() == bytes);
        CHECK(signatures == 1);
        CHECK(hosts.asked[0].view().to_uri() == "/j/g0/obj/1/model/32=manifest/seg=0");
        for (std::size_t i = 1; i < hosts.asked.size(); ++i) {
            const wire::NameView asked = hosts.asked[i].view();
            CHECK(asked.component(asked.size() - 1).type == wire::kImplicitSha256Digest);
        }
    }
}

TEST_CASE("a damaged Nack does not end a fetch of awaited Data as absent") {
    ObjectHosts hosts;
    const OperationId id = hosts.start_fetch();
    const wire::Name asked = hosts.fetcher.forwarder.asked.at(0);
    hosts.fetcher.endpoint.on_nack(asked.view(), wire::NackReason::kNoData, hosts.fetcher.now);
    CHECK(hosts.fetcher.completion(id) == nullptr);
    hosts.publish(some_bytes(5000));
    CHECK(hosts.carry(id)->status == OperationStatus::kDone);
}

TEST_CASE("a Nack for an object ends the wait") {
    ObjectHosts hosts;
    const OperationId id = hosts.start_fetch(true);
    REQUIRE(hosts.fetcher.forwarder.asked.size() == 1);
    const wire::Name asked = hosts.fetcher.forwarder.asked[0];
    hosts.fetcher.endpoint.on_nack(asked.view(), wire::NackReason::kNoRoute, hosts.fetcher.now);
    CHECK(hosts.fetcher.completion(id) == nullptr);
    hosts.fetcher.now = hosts.fetcher.endpoint.next_deadline();
    hosts.fetcher.endpoint.on_timer(hosts.fetcher.now);
    REQUIRE(hosts.fetcher.forwarder.asked.size() == 2);
    hosts.fetcher.endpoint.on_nack(asked.view(), wire::NackReason::kNoData, hosts.fetcher.now);
    REQUIRE(hosts.fetcher.completion(id) != nullptr);
    CHECK(hosts.fetcher.completion(id)->status == OperationStatus::kAbsent);
    CHECK(hosts.fetcher.completion(id)->detail ==
          "/n/h1 does not have /j/g0/obj/1/model/32=manifest/seg=0");
    CHECK(hosts.fetcher.endpoint.next_deadline() == kNever);
}

TEST_CASE("flipped bits are never taken, and the right packets that follow are") {
    ObjectHosts hosts;
    const Bytes bytes = some_bytes(60'000);
    hosts.publish(bytes);
    std::size_t bit = 0;
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        // The root's signature is for the node to check.
        if (is_root(packet)) return Packets{packet};
        Bytes damaged = packet;
        bit = (bit + 7919) % (damaged.size() * 8);
        damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
        return Packets{damaged, packet};
    });
    REQUIRE(ended->status == OperationStatus::kDone);
    CHECK(hosts.fetched() == bytes);
    CHECK(hosts.fetcher.endpoint.counters().unexpected_data > 0);
}

TEST_CASE("swapped segments are refused") {
    ObjectHosts hosts;
    const Bytes bytes = some_bytes(20'000);
    hosts.publish(bytes);
    std::vector<Bytes> contents;
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        if (is_manifest(packet)) return Packets{packet};
        contents.push_back(content_of(packet));
        return Packets{forged(packet, contents[contents.size() / 2]), packet};
    });
    REQUIRE(ended->status == OperationStatus::kDone);
    CHECK(hosts.fetched() == bytes);
}

TEST_CASE("a truncated manifest is fetched again") {
    ObjectHosts hosts;
    const Bytes bytes = some_bytes(200'000);
    hosts.publish(bytes);
    int truncated = 0;
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        if (!is_manifest(packet) || is_root(packet) || truncated == 3) return Packets{packet};
        ++truncated;
        Bytes content = content_of(packet);
        content.resize(content.size() - security::kSha256Size);
        return Packets{forged(packet, content)};
    });
    REQUIRE(ended->status == OperationStatus::kDone);
    CHECK(truncated == 3);
    CHECK(hosts.fetched() == bytes);
}

TEST_CASE("forged roots do not end a fetch, which continues past caches") {
    ObjectHosts hosts;
    const Bytes bytes = some_bytes(5000);
    hosts.publish(bytes);
    const std::vector<Bytes> forgeries = {
        signed_data(*key_of("h3"), name(kRoot), {}, wire::ContentType::kManifest),
        signed_data(*security::make_digest_signer(), name(kRoot), {}, wire::ContentType::kManifest),
        signed_data(*security::make_hmac_signer(name("/n/h1/KEY"), Bytes(32, 1)), name(kRoot), {},
                    wire::ContentType::kManifest)};
    std::size_t next = 0;
    const auto* ended = hosts.carry(hosts.start_fetch(), [&](const Bytes& packet) {
        return Packets{is_root(packet) && next < 3 ? forgeries[next++] : packet};
    });
    REQUIRE(ended != nullptr);
    CHECK(ended->status == OperationStatus::kDone);
    CHECK(hosts.fetched() == bytes);
    CHECK(hosts.fetcher.endpoint.counters().forged_roots == 3);
    CHECK(hosts.fetcher.forwarder.asked_past_caches == std::vector(3, name(kRoot)));
    AuditReport report;
    hosts.fetcher.endpoint.audit(report);
    CHECK(report.complaints().empty());
}

TEST_CASE("an object that another node's key signed is refused, and the error names both keys") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(5000), "h3");
    const TimePoint start = hosts.fetcher.now;
    const auto* ended = hosts.carry(hosts.start_fetch());
    REQUIRE(ended != nullptr);
    CHECK(hosts.fetcher.now - start == 10s);
    CHECK(ended->status == OperationStatus::kUntrusted);
    const std::string roots = std::to_string(hosts.fetcher.endpoint.counters().forged_roots);
    CHECK(ended->detail ==
          "1 segments of /j/g0/obj/1/model/32=manifest (from seg=0) had no answer from /n/h1; no "
          "manifest of /j/g0/obj/1/model signed by /n/h1/KEY came, but " +
              roots + " of other signers (the last by /n/h3/KEY), which were dropped");
    CHECK(hosts.asked.size() > 3);
    CHECK(hosts.asked.size() < 100);  // each time after a longer pause
}

TEST_CASE("an optional fetch ends after the third forged root") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(5000), "h3");
    const TimePoint start = hosts.fetcher.now;
    const auto* ended = hosts.carry(hosts.start_fetch(true));
    REQUIRE(ended != nullptr);
    CHECK(ended->status == OperationStatus::kUntrusted);
    CHECK(hosts.asked.size() == 3);
    CHECK(hosts.fetcher.now - start < 1s);
}

TEST_CASE("a root that contradicts itself is refused, also when its publisher signed it") {
    const Bytes segments = number(wire::kManifestSegments, 2);
    const Bytes fan_out = number(wire::kManifestFanOut, 4);
    const Bytes object_bytes = number(wire::kManifestObjectBytes, 100);
    const Bytes segment_bytes = number(wire::kManifestSegmentBytes, 50);
    const Bytes digests = tlv(wire::kManifestDigests, {Bytes(64)});
    const std::vector<Bytes> contents = {
        {},
        join({segments, fan_out, digests}),  // no size
        join({segments, fan_out, object_bytes, segment_bytes, tlv(wire::kManifestDigests)}),
        join({segments, fan_out, object_bytes, number(wire::kManifestSegmentBytes, 0), digests}),
        join({segments, fan_out, object_bytes, number(wire::kManifestSegmentBytes, 10), digests}),
    };
    for (std::size_t i = 0; i < contents.size(); ++i) {
        CAPTURE(i);
        ObjectHosts hosts;
        const auto* ended = fetch_with_root(hosts, root_with(contents[i]));
        REQUIRE(ended != nullptr);
        CHECK(ended->status == OperationStatus::kAborted);
        CHECK(ended->detail.find("malformed") != std::string::npos);
    }
}

TEST_CASE("memory of another size than the object's is a mismatch that names both sizes") {
    ObjectHosts hosts;
    Bytes mine(99);
    hosts.memory = std::make_shared<ObjectMemory>(mine);
    hosts.publish(some_bytes(100));
    const auto* ended = hosts.carry(hosts.start_fetch());
    CHECK(ended->status == OperationStatus::kMismatch);
    CHECK(ended->detail == "/j/g0/obj/1/model has 100 bytes, and the memory for it 99");
    CHECK(mine == Bytes(99));
}

TEST_CASE("a memory slot holds one object") {
    ObjectHosts hosts;
    const Bytes first = some_bytes(3000);
    hosts.publish(first);
    CHECK(hosts.carry(hosts.start_fetch())->status == OperationStatus::kDone);
    CHECK(hosts.memory->is_complete());
    const std::uint8_t* place = hosts.memory->bytes().data();
    CHECK(hosts.carry(hosts.start_fetch())->status == OperationStatus::kAborted);
    CHECK(hosts.memory->bytes().data() == place);
    CHECK(hosts.fetched() == first);
    ObjectMemory memory;
    CHECK(memory.claim());
    CHECK_FALSE(memory.claim());
}

TEST_CASE("a fetch ends at its deadline and names the late rank") {
    ObjectHosts hosts;
    const OperationId id = hosts.start_fetch();
    const wire::Name root = hosts.fetcher.forwarder.asked.at(0);
    CHECK(hosts.fetcher.forwarder.hints.at(0).view().to_uri() == "/n/h1");
    const Production made = hosts.publisher.produce(root);
    REQUIRE(made.kind == Production::Kind::kPending);
    hosts.fetcher.now += 9s;
    hosts.fetcher.endpoint.on_hold(root.view(), made.missing, hosts.fetcher.now);
    hosts.fetcher.now += 1s;
    hosts.fetcher.endpoint.on_timer(hosts.fetcher.now);
    const auto* ended = hosts.fetcher.completion(id);
    REQUIRE(ended != nullptr);
    CHECK(ended->status == OperationStatus::kDeadlineExceeded);
    CHECK(
        ended->detail ==
        "rank 1 had not sent its data; no manifest of /j/g0/obj/1/model signed by /n/h1/KEY came");
}

TEST_CASE("a cancelled fetch leaves nothing outstanding") {
    ObjectHosts hosts;
    hosts.publish(some_bytes(5000));
    const OperationId id = hosts.start_fetch();
    const auto root = hosts.publisher.produce(hosts.fetcher.forwarder.asked.at(0));
    hosts.fetcher.receive({root.data.bytes().begin(), root.data.bytes().end()});
    const auto asked = hosts.fetcher.forwarder.asked;
    hosts.fetcher.endpoint.cancel(id, hosts.fetcher.now);
    CHECK(hosts.fetcher.completion(id)->status == OperationStatus::kCancelled);
    CHECK(hosts.fetcher.forwarder.cancelled == std::vector(asked.begin() + 1, asked.end()));
    CHECK(hosts.memory->bytes().size() == 5000);  // room, and not an object
    CHECK_FALSE(hosts.memory->is_complete());
}

namespace {

/// Fetches the published object and an absent one as one operation.
struct FetchOfTwo : ObjectHosts {
    FetchOfTwo() {
        publish(some_bytes(5000));
        const auto spec_of = [&](const std::string& last, const auto& into) {
            return ObjectFetchSpec{name("/j/g0/obj/1/" + last), name("/n/h1"), name("/n/h1/KEY"),
                                   into, fetcher.now + 10s};
        };
        fetcher.endpoint.fetch_objects(id, {spec_of("model", memory), spec_of("absent", absent)},
                                       fetcher.now);
    }

    OperationId id = 77;
    std::shared_ptr<ObjectMemory> absent = std::make_shared<ObjectMemory>();
};

}  // namespace

TEST_CASE("fetches of one operation complete it once, and each has an end of its own") {
    FetchOfTwo hosts;
    const auto* ended = hosts.carry(hosts.id);
    REQUIRE(ended != nullptr);
    CHECK(ended->status == OperationStatus::kDone);
    CHECK(hosts.fetcher.completions.size() == 1);
    CHECK(hosts.memory->status() == OperationStatus::kDone);
    CHECK(hosts.fetched() == some_bytes(5000));
    CHECK(hosts.absent->status() == OperationStatus::kDeadlineExceeded);
    CHECK(hosts.absent->detail().find("/j/g0/obj/1/absent") != std::string::npos);
}

TEST_CASE("a cancelled operation ends each of its fetches") {
    FetchOfTwo hosts;
    hosts.fetcher.endpoint.cancel(hosts.id, hosts.fetcher.now);
    REQUIRE(hosts.fetcher.completion(hosts.id) != nullptr);
    CHECK(hosts.memory->status() == OperationStatus::kCancelled);
    CHECK(hosts.absent->status() == OperationStatus::kCancelled);
    CHECK(hosts.fetcher.forwarder.cancelled.size() == 2);
}
