// Roots whose signature nobody has needed yet: holders of the tags' key go by the tag, and
// everybody else gets the root that its producer would have signed at once.

#include <array>

#include "object_hosts.hpp"
#include "transport/security/manifest.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

const Bytes kPublicKey{0xfd, 0x17, 0x24, 0x38, 0x5a, 0xa0, 0xc7, 0x5b, 0x64, 0xfb, 0x78,
                       0xcd, 0x60, 0x2f, 0xa1, 0xd9, 0x91, 0xfd, 0xeb, 0xf7, 0x6b, 0x13,
                       0xc5, 0x8e, 0xd7, 0x02, 0xea, 0xc8, 0x35, 0xe9, 0xf6, 0x18};
constexpr std::size_t kPacketBytes = 1300;
const wire::Name kPrefix = name("/kv/ab");
const wire::Name kBlock = name("/kv/ab/block");
const wire::Name kKey = name("/n/t/KEY");
const wire::Name kRoot = security::manifest_name(kBlock, 0);

std::shared_ptr<security::SegmentTagger> tagger(std::uint8_t key = 1) {
    std::array<std::uint8_t, security::SegmentTagger::kKeySize> bytes{};
    bytes.fill(key);
    return std::make_shared<security::SegmentTagger>(bytes);
}

security::Keyring keyring() {
    security::Keyring made;
    REQUIRE(made.add(wire::SignatureType::kEd25519, kKey, kPublicKey, kPrefix));
    return made;
}

Bytes bytes_of(const PacketRef& packet) { return {packet.bytes().begin(), packet.bytes().end()}; }

bool is_draft(const Bytes& root) { return security::is_draft(*wire::DataView::parse(root)); }

bool is_signed(const Bytes& root) {
    return keyring().verify(*wire::DataView::parse(root)) == security::Verdict::kValid;
}

wire::InterestFields from_neighbour(const wire::Name& wanted) {
    wire::InterestFields fields;
    fields.name = wanted.view();
    fields.accepts_draft = true;
    fields.hop_limit = 1;
    return fields;
}

/// A member of the pool.
struct Member : ObjectHost {
    explicit Member(const std::string& node = "h1", std::uint8_t tag_key = 1,
                    const std::string& key = "t")
        : ObjectHost(node) {
        endpoint.register_objects(kPrefix, node, MissingObject::kRefuse,
                                  tag_key == 0 ? nullptr : tagger(tag_key),
                                  key.empty() ? nullptr : key_of(key));
    }

    void publish(const Bytes& bytes, bool draft = true) {
        published = bytes;
        ObjectSpec spec{kBlock, published, kPacketBytes};
        spec.draft = draft;
        endpoint.publish_object(1, spec, key_of("t"));
    }

    void finish() {
        while (completion(1) == nullptr) endpoint.on_timer(now);
        REQUIRE(completion(1)->status == OperationStatus::kDone);
    }

    OperationStatus seal(const Bytes& bytes, const Bytes& root,
                         std::span<const security::Sha256Digest> digests = {}) {
        const security::Keyring keys = keyring();
        endpoint.publish_sealed_object(2, {{kBlock, bytes, kPacketBytes}, root, digests}, keys);
        while (completion(2) == nullptr) endpoint.on_timer(now);
        return completion(2)->status;
    }

    Bytes published;  ///< read until the publication ends

    Bytes root() { return bytes_of(endpoint.object_root(kBlock)); }
    Bytes root_for(const wire::InterestFields& interest) {
        const Production made = produce(interest);
        REQUIRE(made.kind == Production::Kind::kData);
        return bytes_of(made.data);
    }
    Bytes root_for_stranger() {
        const Production made = produce(kRoot);
        REQUIRE(made.kind == Production::Kind::kData);
        return bytes_of(made.data);
    }
};

Bytes draft_of(const Bytes& bytes) {
    Member producer;
    producer.publish(bytes);
    producer.finish();
    return producer.root();
}

Bytes signed_root_of(const Bytes& bytes) {
    Member producer;
    producer.publish(bytes, false);
    producer.finish();
    return producer.root();
}

OperationId fetch(Member& member, bool to_neighbour, const std::shared_ptr<ObjectMemory>& memory) {
    member.endpoint.fetch_object(3,
                                 {.object = kBlock,
                                  .hint = name("/n/h1"),
                                  .signer = kKey,
                                  .memory = memory,
                                  .deadline = member.now + 10s,
                                  .may_be_absent = true,
                                  .to_neighbour = to_neighbour},
                                 member.now);
    return 3;
}

/// Carries all that `member` requests from `producer`; `before` gets each packet ahead of it.
void carry(Member& producer, Member& member,
           const std::function<void(const wire::Name& wanted, Bytes& packet)>& before) {
    while (!member.forwarder.asked.empty()) {
        for (const wire::Name& wanted : std::exchange(member.forwarder.asked, {})) {
            Bytes packet = producer.root_for(from_neighbour(wanted));
            before(wanted, packet);
            member.receive(packet);
        }
    }
}

}  // namespace

TEST_CASE("a neighbour gets a draft, and everybody else the root that is signed at once") {
    for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, std::size_t{200'000}}) {
        CAPTURE(size);
        const Bytes bytes = some_bytes(size);
        Member member;
        member.publish(bytes);
        member.finish();
        CHECK(is_draft(member.root_for(from_neighbour(kRoot))));
        const Bytes root = member.root_for_stranger();
        CHECK(is_signed(root));
        CHECK(root == signed_root_of(bytes));
        CHECK(member.root() == root);  // it is kept
    }
}

TEST_CASE("a draft is only for an Interest that comes from a neighbour") {
    Member member;
    member.publish(some_bytes(5000));
    member.finish();
    wire::InterestFields from_afar = from_neighbour(kRoot);
    for (const std::optional<std::uint8_t> hop_limit :
         {std::optional<std::uint8_t>(), std::optional<std::uint8_t>(2)}) {
        from_afar.hop_limit = hop_limit;
        CHECK(is_signed(member.root_for(from_afar)));
    }
}

TEST_CASE("the full name of a root is that of the signed one") {
    const Bytes bytes = some_bytes(5000);
    for (const Bytes& root : {signed_root_of(bytes), draft_of(bytes)}) {
        Member member;
        member.publish(bytes);
        member.finish();
        wire::Name full = kRoot;
        full.append(wire::kImplicitSha256Digest, security::Sha256().digest(root));
        const Production made = member.produce(from_neighbour(full));
        REQUIRE((made.kind == Production::Kind::kData) == is_signed(root));
        if (is_signed(root)) CHECK(bytes_of(made.data) == root);
    }
}

TEST_CASE("those who wait for a block get a draft only if all of them accept one") {
    for (const bool stranger_waits : {false, true}) {
        CAPTURE(stranger_waits);
        Member member;
        member.publish(some_bytes(5000));
        CHECK(member.produce(from_neighbour(kRoot)).kind == Production::Kind::kPending);
        if (stranger_waits) CHECK(member.produce(kRoot).kind == Production::Kind::kPending);
        member.finish();
        REQUIRE(member.forwarder.put.size() == 1);
        CHECK(is_draft(bytes_of(member.forwarder.put[0])) == !stranger_waits);
    }
}

TEST_CASE("an Interest that is over needs no signature") {
    Member member;
    member.publish(some_bytes(5000));
    CHECK(member.produce(kRoot).kind == Production::Kind::kPending);
    member.endpoint.forget(kRoot.view());
    CHECK(member.produce(from_neighbour(kRoot)).kind == Production::Kind::kPending);
    member.finish();
    REQUIRE(member.forwarder.put.size() == 1);
    CHECK(is_draft(bytes_of(member.forwarder.put[0])));
}

TEST_CASE("without a key for tags a root is signed at once") {
    Member member("h1", 0);
    member.publish(some_bytes(5000));
    member.finish();
    CHECK(is_signed(member.root_for(from_neighbour(kRoot))));
}

TEST_CASE("who has stored a draft serves it, and signs it for others") {
    const Bytes bytes = some_bytes(5000);
    const Bytes draft = draft_of(bytes);
    Member member;
    REQUIRE(member.seal(bytes, draft) == OperationStatus::kDone);
    CHECK(member.root_for(from_neighbour(kRoot)) == draft);
    CHECK(member.root_for_stranger() == signed_root_of(bytes));
}

TEST_CASE("a stored draft is nothing without its keys, and with other bytes") {
    const Bytes bytes = some_bytes(5000);
    const Bytes draft = draft_of(bytes);
    const auto untrusted = OperationStatus::kUntrusted;
    CHECK(Member("h1", 2).seal(bytes, draft) == untrusted);
    CHECK(Member("h1", 0).seal(bytes, draft) == untrusted);
    CHECK(Member("h1", 1, "").seal(bytes, draft) == untrusted);
    CHECK(Member("h1", 1, "another").seal(bytes, draft) == untrusted);
    Bytes others = bytes;
    others[4000] ^= 1;
    CHECK(Member().seal(others, draft) == untrusted);
    for (std::size_t place = 0; place < draft.size(); place += 3) {
        CAPTURE(place);
        Bytes damaged = draft;
        damaged[place] ^= 0x11;
        // Damage outside what the tag covers is signed as it is, and members ignore it.
        const auto view = wire::DataView::parse(damaged);
        if (view && view->content_type() == wire::ContentType::kManifest &&
            security::is_draft(*view) && view->key_name() == kKey.view() &&
            security::has_root_tag(*view, *tagger())) {
            continue;
        }
        CHECK(Member().seal(bytes, damaged) == untrusted);
    }
}

TEST_CASE("a member takes a draft from a neighbour by its tag, and serves it in turn") {
    const Bytes bytes = some_bytes(5000);
    Member producer;
    producer.publish(bytes);
    producer.finish();
    Member member("h2");
    const auto memory = std::make_shared<ObjectMemory>();
    const OperationId id = fetch(member, true, memory);
    CHECK(member.forwarder.asked_of_neighbours == std::vector{kRoot});
    carry(producer, member, [&](const wire::Name& wanted, const Bytes& packet) {
        if (wanted != kRoot) return;
        CHECK(is_draft(packet));
        CHECK(member.endpoint.vouches_for(*wire::DataView::parse(packet)));
    });
    REQUIRE(member.completion(id)->status == OperationStatus::kDone);
    CHECK(std::ranges::equal(memory->bytes(), bytes));
    const Bytes draft(memory->root().begin(), memory->root().end());
    Member next("h3");
    REQUIRE(next.seal(bytes, draft, memory->digests()) == OperationStatus::kDone);
    CHECK(next.root_for_stranger() == signed_root_of(bytes));
}

TEST_CASE("no draft is accepted with another tag, or without the key") {
    const Bytes draft = draft_of(some_bytes(5000));
    for (const std::uint8_t key : std::array<std::uint8_t, 3>{1, 2, 0}) {
        CAPTURE(key);
        Member member("h2", key);
        fetch(member, true, std::make_shared<ObjectMemory>());
        CHECK(member.endpoint.vouches_for(*wire::DataView::parse(draft)) == (key == 1));
    }
    CHECK_FALSE(is_signed(draft));
    Member member("h2");
    fetch(member, true, std::make_shared<ObjectMemory>());
    Bytes other_tag = draft;
    const auto content = wire::DataView::parse(other_tag)->content();
    other_tag[static_cast<std::size_t>(&content.back() - other_tag.data())] ^= 1;
    CHECK_FALSE(member.endpoint.vouches_for(*wire::DataView::parse(other_tag)));
}

TEST_CASE("only the first Interest for a neighbour's root accepts a draft, if there is a key") {
    Member member("h2");
    fetch(member, true, std::make_shared<ObjectMemory>());
    member.now = member.endpoint.next_deadline();
    member.endpoint.on_timer(member.now);
    CHECK(member.forwarder.asked == std::vector{kRoot, kRoot});
    CHECK(member.forwarder.asked_of_neighbours.size() == 1);
    Member far("h2");
    fetch(far, false, std::make_shared<ObjectMemory>());
    Member without_key("h2", 0);
    fetch(without_key, true, std::make_shared<ObjectMemory>());
    CHECK(far.forwarder.asked_of_neighbours.empty());
    CHECK(without_key.forwarder.asked_of_neighbours.empty());
}

namespace {

/// A member that lends a block's bytes, so that their digests are not computed.
struct Lender : Member {
    explicit Lender(const Bytes& bytes) {
        ObjectSpec spec{kBlock, bytes, kPacketBytes};
        spec.draft = true;
        spec.lent = std::make_shared<int>(0);
        endpoint.publish_object(1, spec, key_of("t"));
        finish();
    }
};

bool has_digests(const Bytes& root) {
    return security::ManifestVerifier::from_verified_root(*wire::DataView::parse(root))
        ->has_digests();
}

}  // namespace

TEST_CASE("a lent block is tagged and not hashed, until somebody needs its digests") {
    const Bytes bytes = some_bytes(5000);
    Lender member(bytes);
    CHECK_FALSE(has_digests(member.root_for(from_neighbour(kRoot))));
    CHECK(member.root_for_stranger() == signed_root_of(bytes));
    Lender once_more(bytes);
    const security::Sha256Digest digest =
        security::Sha256().digest(member.produce(name("/kv/ab/block/seg=0")).data.bytes());
    wire::Name full = name("/kv/ab/block/seg=0");
    full.append(wire::kImplicitSha256Digest, digest);
    CHECK(once_more.produce(full).kind == Production::Kind::kData);
    CHECK(once_more.root() == signed_root_of(bytes));
}

TEST_CASE("an object that takes long to hash is hashed when it is published") {
    CHECK(has_digests(Lender(some_bytes(300'000)).root()));
}

TEST_CASE("segments without digests are requested by plain names, and taken by their tags alone") {
    const Bytes bytes = some_bytes(5000);
    Lender producer(bytes);
    Member member("h2");
    const auto memory = std::make_shared<ObjectMemory>();
    const OperationId id = fetch(member, true, memory);
    std::size_t segments = 0;
    carry(producer, member, [&](const wire::Name& wanted, const Bytes& packet) {
        const auto view = *wire::DataView::parse(packet);
        CHECK(member.endpoint.vouches_for(view));
        CHECK(member.endpoint.told_digest(view) == nullptr);
        if (wanted == kRoot) return;
        ++segments;
        Bytes changed = packet;
        changed[changed.size() / 2] ^= 1;
        CHECK_FALSE(member.endpoint.vouches_for(*wire::DataView::parse(changed)));
        member.receive(changed);  // as if someone had signed it with a key of the network
    });
    CHECK(segments > 3);
    REQUIRE(member.completion(id)->status == OperationStatus::kDone);
    CHECK(std::ranges::equal(memory->bytes(), bytes));
    const Bytes draft(memory->root().begin(), memory->root().end());
    Member next("h3");
    REQUIRE(next.seal(bytes, draft, memory->digests()) == OperationStatus::kDone);
    CHECK(next.root_for_stranger() == signed_root_of(bytes));
}

TEST_CASE("the tag of a segment proves nothing of other bytes at the same address") {
    const Bytes bytes = some_bytes(5000);
    Lender producer(bytes);
    Member member("h2");
    const auto memory = std::make_shared<ObjectMemory>();
    const OperationId id = fetch(member, true, memory);
    carry(producer, member, [&](const wire::Name& wanted, Bytes& packet) {
        if (wanted == kRoot) return;
        CHECK(member.endpoint.vouches_for(*wire::DataView::parse(packet)));
        packet[packet.size() / 2] ^= 1;
        const auto changed = *wire::DataView::parse(packet);
        member.endpoint.on_data(changed, PacketRef(), false, member.now);
        packet[packet.size() / 2] ^= 1;
    });
    REQUIRE(member.completion(id)->status == OperationStatus::kDone);
    CHECK(std::ranges::equal(memory->bytes(), bytes));
}

TEST_CASE("a stored draft without digests is verified by its tags, and completed") {
    const Bytes bytes = some_bytes(5000);
    const Bytes draft = Lender(bytes).root();
    Member member;
    REQUIRE(member.seal(bytes, draft) == OperationStatus::kDone);
    CHECK(member.root_for(from_neighbour(kRoot)) == draft);
    CHECK(member.root_for_stranger() == signed_root_of(bytes));
    Bytes others = bytes;
    others[4000] ^= 1;
    CHECK(Member().seal(others, draft) == OperationStatus::kUntrusted);
    CHECK(Member("h1", 2).seal(bytes, draft) == OperationStatus::kUntrusted);
}
