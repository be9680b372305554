// Root manifests that go with a request: the holder of the key needs neither to request them nor to
// verify their signatures, and whatever is not as the requester attached it is ignored.

#include <array>

#include "object_hosts.hpp"
#include "transport/object/attached_roots.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

const Bytes kPublicKey{0xfd, 0x17, 0x24, 0x38, 0x5a, 0xa0, 0xc7, 0x5b, 0x64, 0xfb, 0x78,
                       0xcd, 0x60, 0x2f, 0xa1, 0xd9, 0x91, 0xfd, 0xeb, 0xf7, 0x6b, 0x13,
                       0xc5, 0x8e, 0xd7, 0x02, 0xea, 0xc8, 0x35, 0xe9, 0xf6, 0x18};
constexpr std::size_t kPacketBytes = 1300;
constexpr std::size_t kBytes = 5000;
const std::string kHash(64, 'a');
const wire::Name kBlock = name("/kv/ab/00ff/l/0-3/" + kHash);
const wire::Name kRequest = name("/kv/ab/request/h1/h2/1/keep/00ff/l/0-3/" + kHash + "/5/h2");
const wire::Name kOtherRequest = name("/kv/ab/request/h1/h2/2/keep/00ff/l/0-3/" + kHash + "/5/h2");

std::shared_ptr<security::SegmentTagger> tagger(std::uint8_t key = 1) {
    std::array<std::uint8_t, security::SegmentTagger::kKeySize> bytes{};
    bytes.fill(key);
    return std::make_shared<security::SegmentTagger>(bytes);
}

/// Keeps the roots that go with Interests.
class AttachingForwarder final : public Forwarder {
  public:
    void express(RequesterId, wire::NameView asked_name, wire::NameView, Duration) override {
        asked.emplace_back(wire::Name(asked_name), Bytes());
    }
    void express_to_neighbour(RequesterId, wire::NameView asked_name, wire::NameView, Duration,
                              PacketRef roots) override {
        asked.emplace_back(wire::Name(asked_name),
                           Bytes(roots.bytes().begin(), roots.bytes().end()));
    }
    void cancel(RequesterId, wire::NameView) override {}
    void put_data(RequesterId, PacketRef, bool) override {}
    void hold(wire::NameView, wire::ByteView) override {}
    void nack(wire::NameView, wire::NackReason) override {}

    std::vector<std::pair<wire::Name, Bytes>> asked;
};

/// The node h2 publishes a block, and asks h1 to keep it.
struct Client {
    Client() { endpoint.register_objects(name("/kv/ab"), "h2", MissingObject::kRefuse, tagger()); }

    void begin_publishing() {
        endpoint.publish_object(1, {kBlock, bytes, kPacketBytes}, key_of("t"));
    }

    void request(std::size_t max_request_bytes = kPacketBytes) {
        endpoint.fetch_object(2,
                              {.object = kRequest,
                               .hint = name("/n/h1"),
                               .signer = name("/n/t/KEY"),
                               .memory = std::make_shared<ObjectMemory>(),
                               .deadline = now + 10s,
                               .may_be_absent = true,
                               .to_neighbour = true,
                               .attached = {kBlock},
                               .max_request_bytes = max_request_bytes},
                              now);
    }

    Bytes attached() {
        begin_publishing();
        request();
        endpoint.on_timer(now);
        REQUIRE(forwarder.asked.size() == 1);
        return forwarder.asked[0].second;
    }

    Bytes bytes = some_bytes(kBytes);
    PacketPool pool;
    std::unique_ptr<security::Signer> signer = security::make_digest_signer();
    AttachingForwarder forwarder;
    Endpoint endpoint{{}, name("/n/h2"), forwarder, pool, *signer};
    TimePoint now{1h};
};

/// The node h1, which keeps blocks.
struct Home {
    Home() {
        REQUIRE(keyring.add(wire::SignatureType::kEd25519, name("/n/t/KEY"), kPublicKey,
                            name("/kv/ab")));
        const wire::Name requests = name("/kv/ab/request/h1");
        host.endpoint.register_objects(name("/kv/ab"), "h1", MissingObject::kRefuse, tagger());
        host.endpoint.register_objects(requests, "h1", MissingObject::kWait, tagger());
        KeepOptions options;
        options.requests = requests;
        options.signer = name("/n/t/KEY");
        options.answer_signer = key_of("t");
        options.max_packet_bytes = kPacketBytes;
        options.fetch_time = 9s;
        options.answer_time = 5s;
        options.budget_bytes = 1 << 20;
        host.endpoint.keep_objects(std::move(options), keyring, host.now);
    }

    void take(const wire::Name& request, const Bytes& attached) {
        Bytes packet(4096);
        const wire::Name manifest = security::manifest_name(request, 0);
        wire::InterestFields fields;
        fields.name = manifest.view();
        fields.attached_roots = attached;
        packet.resize(wire::encode_interest(fields, packet));
        const auto interest = wire::InterestView::parse(packet);
        REQUIRE(interest);
        if (host.endpoint.produce(*interest, true, host.now).kind == Production::Kind::kPending) {
            host.endpoint.await(*interest, host.now);
        }
    }

    /// Whether it requests the block's root itself.
    bool asks_for_root() const {
        const wire::Name root = security::manifest_name(kBlock, 0);
        return std::ranges::find(host.forwarder.asked, root) != host.forwarder.asked.end();
    }

    void carry(Client& client) {
        while (!host.forwarder.asked.empty()) {
            for (const wire::Name& wanted : std::exchange(host.forwarder.asked, {})) {
                Bytes packet(512);
                wire::InterestFields fields;
                fields.name = wanted.view();
                packet.resize(wire::encode_interest(fields, packet));
                const auto made =
                    client.endpoint.produce(*wire::InterestView::parse(packet), true, host.now);
                REQUIRE(made.kind == Production::Kind::kData);
                host.receive(Bytes(made.data.bytes().begin(), made.data.bytes().end()));
            }
        }
    }

    security::Keyring keyring;
    ObjectHost host{"h1"};
};

}  // namespace

TEST_CASE("a request leaves once its blocks are published, with their roots") {
    Client client;
    client.begin_publishing();
    client.request();
    CHECK(client.forwarder.asked.empty());
    client.endpoint.on_timer(client.now);
    REQUIRE(client.forwarder.asked.size() == 1);
    const auto roots =
        read_attached_roots(kRequest.view(), client.forwarder.asked[0].second, *tagger());
    REQUIRE(roots.size() == 1);
    CHECK(std::ranges::equal(roots[0].whole(), client.endpoint.object_root(kBlock).bytes()));
}

TEST_CASE("a request leaves without roots that are not here, or do not fit") {
    Client absent;
    absent.request();
    REQUIRE(absent.forwarder.asked.size() == 1);
    CHECK(absent.forwarder.asked[0].second.empty());
    Client large;
    large.begin_publishing();
    large.request(400);
    large.endpoint.on_timer(large.now);
    REQUIRE(large.forwarder.asked.size() == 1);
    CHECK(large.forwarder.asked[0].second.empty());
}

TEST_CASE("a request whose publication fails, or that is cancelled before, is not stuck") {
    Client failing;
    failing.begin_publishing();
    failing.request();
    failing.endpoint.withdraw_object(kBlock);
    failing.endpoint.on_timer(failing.endpoint.next_deadline());
    REQUIRE(failing.forwarder.asked.size() == 1);
    CHECK(failing.forwarder.asked[0].second.empty());
    Client cancelled;
    cancelled.begin_publishing();
    cancelled.request();
    cancelled.endpoint.cancel(2, cancelled.now);
    cancelled.endpoint.on_timer(cancelled.now);
    CHECK(cancelled.forwarder.asked.empty());
    CHECK(cancelled.endpoint.next_deadline() > cancelled.now);
}

TEST_CASE("only a repetition lacks the roots") {
    Client client;
    CHECK(!client.attached().empty());
    client.now = client.endpoint.next_deadline();
    client.endpoint.on_timer(client.now);
    REQUIRE(client.forwarder.asked.size() == 2);
    CHECK(client.forwarder.asked[1].second.empty());
}

TEST_CASE("attached roots are ignored if a byte is changed, or the request is another") {
    Client client;
    const Bytes attached = client.attached();
    CHECK(read_attached_roots(kRequest.view(), attached, *tagger()).size() == 1);
    CHECK(read_attached_roots(kOtherRequest.view(), attached, *tagger()).empty());
    CHECK(read_attached_roots(kRequest.view(), attached, *tagger(2)).empty());
    for (std::size_t size = 0; size < attached.size(); ++size) {
        CHECK(read_attached_roots(kRequest.view(), wire::ByteView(attached).first(size), *tagger())
                  .empty());
        Bytes changed = attached;
        changed[size] ^= 1;
        CHECK(read_attached_roots(kRequest.view(), changed, *tagger()).empty());
    }
}

TEST_CASE("a home requests no attached root, and serves the block as its producer does") {
    Client client;
    Home home;
    home.take(kRequest, client.attached());
    CHECK(!home.host.forwarder.asked.empty());
    CHECK(!home.asks_for_root());
    home.carry(client);
    const auto kept = home.host.endpoint.take_requested_objects();
    REQUIRE(kept.size() == 1);
    REQUIRE(kept[0].kept);
    CHECK(std::ranges::equal(kept[0].kept->memory()->bytes(), client.bytes));
    CHECK(std::ranges::equal(home.host.endpoint.object_root(kBlock).bytes(),
                             client.endpoint.object_root(kBlock).bytes()));
}

TEST_CASE("a home keeps a block that is small enough for its attached root to contain it") {
    Client client;
    client.bytes = some_bytes(100);
    Home home;
    home.take(kRequest, client.attached());
    home.carry(client);
    const auto kept = home.host.endpoint.take_requested_objects();
    REQUIRE(kept.size() == 1);
    REQUIRE(kept[0].kept);
    CHECK(std::ranges::equal(kept[0].kept->memory()->bytes(), client.bytes));
}

TEST_CASE("a home requests the root when what is attached is not right") {
    Client client;
    const Bytes attached = client.attached();
    Bytes changed_signature = attached;
    changed_signature.back() ^= 1;
    for (const Bytes& one : {Bytes(), changed_signature, Bytes(attached.size(), 7)}) {
        Home home;
        home.take(kRequest, one);
        CHECK(home.asks_for_root());
        home.carry(client);
        CHECK(home.host.endpoint.take_requested_objects().size() == 1);
    }
    Home home;
    home.take(kOtherRequest, attached);
    CHECK(home.asks_for_root());
}
