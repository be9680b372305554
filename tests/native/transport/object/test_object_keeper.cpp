// Objects that a node keeps by itself: what others asked for is fetched, served and answered, what
// cannot be is left to the node's owner with all that is known, and its books come out right.

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

/// Of the seed that `key_of` uses.
const Bytes kPublicKey{0xfd, 0x17, 0x24, 0x38, 0x5a, 0xa0, 0xc7, 0x5b, 0x64, 0xfb, 0x78,
                       0xcd, 0x60, 0x2f, 0xa1, 0xd9, 0x91, 0xfd, 0xeb, 0xf7, 0x6b, 0x13,
                       0xc5, 0x8e, 0xd7, 0x02, 0xea, 0xc8, 0x35, 0xe9, 0xf6, 0x18};
constexpr std::size_t kBytes = 5000;
constexpr std::size_t kPacketBytes = 1300;
const std::string kAnswer = R"({"done": true})";

constexpr auto kDone = OperationStatus::kDone;
using Kind = Production::Kind;

std::string hash_of(int block) {
    std::string hash(64, '0');
    hash[0] = static_cast<char>('a' + block);
    return hash;
}

wire::Name block_name(int block) { return name("/kv/ab/00ff/l/0-3/" + hash_of(block)); }

wire::Name root_of(const wire::Name& object) { return security::manifest_name(object, 0); }

wire::Name request_of(const std::vector<int>& blocks, const std::string& requester = "h2",
                      const std::string& nonce = "1", const std::string& source = "h2") {
    std::string uri = "/kv/ab/request/h1/" + requester + "/" + nonce + "/keep/00ff/l/0-3/" +
                      hash_of(blocks[0]) + "/5/" + source;
    for (std::size_t i = 1; i < blocks.size(); ++i) uri += "/0-3/" + hash_of(blocks[i]) + "/6";
    return name(uri);
}

/// The node h1 keeps blocks of a tenant, which the node h2 offers.
struct Pool {
    explicit Pool(std::uint64_t budget_bytes = 1 << 20, std::size_t window = 8) {
        REQUIRE(keyring.add(wire::SignatureType::kEd25519, name("/n/t/KEY"), kPublicKey,
                            name("/kv/ab")));
        keyring.accept_digest(true);
        home.endpoint.register_objects(name("/kv/ab"), "h1", MissingObject::kRefuse);
        home.endpoint.register_objects(requests, "h1", MissingObject::kWait);
        source.endpoint.register_objects(name("/kv/ab"), "h2", MissingObject::kRefuse);
        keep(budget_bytes, window);
    }

    void keep(std::uint64_t budget_bytes, std::size_t window = 8) {
        KeepOptions options;
        options.requests = requests;
        options.signer = name("/n/t/KEY");
        options.answer_signer = key_of("t");
        options.answer.assign(kAnswer.begin(), kAnswer.end());
        options.max_packet_bytes = kPacketBytes;
        options.window = window;
        options.fetch_time = 9s;
        options.answer_time = 5s;
        options.budget_bytes = budget_bytes;
        home.endpoint.keep_objects(std::move(options), keyring, home.now);
    }

    void offer(int block, std::size_t size = kBytes, const std::string& signer = "t") {
        publish(source, block_name(block), some_bytes(size), signer);
    }

    static OperationStatus publish(ObjectHost& host, const wire::Name& object, const Bytes& bytes,
                                   const std::string& signer = "t") {
        static OperationId id = 100;
        host.endpoint.publish_object(++id, {object, bytes, kPacketBytes}, key_of(signer));
        while (host.completion(id) == nullptr) host.endpoint.on_timer(host.now);
        return host.completion(id)->status;
    }

    Kind ask(const wire::Name& object) { return home.produce(root_of(object)).kind; }

    /// Carries what the home asks for until it asks no more.
    void carry() {
        while (!home.forwarder.asked.empty()) {
            for (const wire::Name& wanted : std::exchange(home.forwarder.asked, {})) {
                fetched.push_back(wanted);
                const Production made = source.produce(wanted);
                if (made.kind == Kind::kData) {
                    const auto bytes = made.data.bytes();
                    home.receive(Bytes(bytes.begin(), bytes.end()));
                } else if (made.kind == Kind::kAbsent) {
                    home.endpoint.on_nack(wanted.view(), wire::NackReason::kNoData, home.now);
                }
            }
        }
    }

    /// The same for what the home asks for again after a pause.
    void carry_later() {
        home.now = home.endpoint.next_deadline();
        home.endpoint.on_timer(home.now);
        carry();
    }

    /// Whether who waits for the request has been given its answer.
    bool is_answered(const wire::Name& request) {
        return std::ranges::any_of(home.forwarder.put, [&](const PacketRef& packet) {
            const auto data = wire::DataView::parse(packet.bytes());
            return data && data->name() == root_of(request).view();
        });
    }

    bool serves(int block) { return ask(block_name(block)) == Kind::kData; }

    /// What the home's owner is told but uses of what it has.
    std::vector<RequestedObject> requested() { return home.endpoint.take_requested_objects(); }

    void acknowledge(std::size_t objects, std::uint64_t bytes,
                     std::uint64_t budget_bytes = 1 << 20) {
        home.endpoint.acknowledge_kept(requests, {objects, bytes, budget_bytes});
    }

    wire::Name requests = name("/kv/ab/request/h1");
    security::Keyring keyring;
    ObjectHost home{"h1"};
    ObjectHost source{"h2"};
    std::vector<wire::Name> fetched;
};

/// What a block of the usual size takes of a budget.
std::uint64_t charge_of_one() {
    Pool pool;
    pool.offer(0);
    pool.ask(request_of({0}));
    pool.carry();
    return pool.requested().at(0).kept->memory()->charge();
}

std::size_t count(const std::vector<wire::Name>& names, const wire::Name& one) {
    return static_cast<std::size_t>(std::ranges::count(names, one));
}

}  // namespace

TEST_CASE("a keep request fetches the block, serves it, is answered and is reported") {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBytes, std::size_t{700'000}}) {
        CAPTURE(size);
        Pool pool;
        pool.offer(0, size);
        const wire::Name request = request_of({0});
        CHECK(pool.ask(request) == Kind::kPending);
        CHECK(pool.requested().empty());
        pool.carry();
        CHECK(pool.is_answered(request));
        const auto requested = pool.requested();
        REQUIRE(requested.size() == 1);
        REQUIRE(requested[0].kept);
        CHECK(requested[0].name == block_name(0));
        CHECK(requested[0].kept->depth() == 5);
        CHECK(requested[0].kept->requesters() == std::vector<std::string>{"h2"});
        CHECK(std::ranges::equal(requested[0].kept->memory()->bytes(), some_bytes(size)));
        CHECK(!requested[0].kept->is_replaced());
        for (const wire::Name& packet : pool.fetched) {
            const Production served = pool.home.produce(packet);
            REQUIRE(served.kind == Kind::kData);
            CHECK(
                std::ranges::equal(served.data.bytes(), pool.source.produce(packet).data.bytes()));
        }
    }
}

TEST_CASE("an answer equals the owner's and has the same key's signature") {
    Pool pool;
    pool.offer(0);
    pool.ask(request_of({0}));
    pool.carry();
    const Production answer = pool.home.produce(root_of(request_of({0})));
    REQUIRE(answer.kind == Kind::kData);
    const auto root = wire::DataView::parse(answer.data.bytes());
    REQUIRE(root);
    CHECK(pool.keyring.verify(*root) == security::Verdict::kValid);
    CHECK(root->key_name() == name("/n/t/KEY").view());
    const auto manifest = security::ManifestVerifier::from_verified_root(*root);
    REQUIRE(manifest);
    const auto& within = manifest->object_within_root();
    REQUIRE(within);
    CHECK(std::ranges::equal(root->whole().subspan(within->offset, within->size), kAnswer));
}

TEST_CASE("a request for several blocks is answered when all have come") {
    Pool pool;
    for (int block = 0; block < 4; ++block) pool.offer(block);
    const wire::Name request = request_of({0, 1, 2, 3});
    pool.ask(request);
    pool.carry();
    CHECK(pool.is_answered(request));
    CHECK(pool.requested().size() == 4);
    for (int block = 0; block < 4; ++block) CHECK(pool.serves(block));
}

TEST_CASE("a repeated request starts nothing new, and two requesters share one fetch") {
    Pool pool;
    pool.offer(0);
    pool.offer(1);
    const wire::Name one = request_of({0}, "h2", "1");
    const wire::Name other = request_of({1, 0}, "h3", "1");
    pool.ask(one);
    pool.ask(other);
    pool.home.now += 60s;  // its Interest has gone, and comes again
    pool.ask(one);
    pool.home.now -= 60s;
    pool.carry();
    CHECK(count(pool.fetched, root_of(block_name(0))) == 1);
    CHECK(pool.is_answered(one));
    CHECK(pool.is_answered(other));
    const auto requested = pool.requested();
    REQUIRE(requested.size() == 2);
    CHECK(requested[0].kept->requesters() == std::vector<std::string>{"h2", "h3"});
    CHECK(requested[1].kept->requesters() == std::vector<std::string>{"h3"});
}

TEST_CASE("blocks that cannot be kept are left to the owner with a status per block") {
    Pool pool;
    pool.offer(0);
    pool.offer(2, kBytes, "stranger");
    const wire::Name request = request_of({0, 1, 2});
    pool.ask(request);
    pool.carry();
    for (int forgeries = 1; forgeries < 3; ++forgeries) pool.carry_later();
    CHECK(!pool.is_answered(request));
    const auto requested = pool.requested();
    REQUIRE(requested.size() == 2);
    CHECK(requested[0].kept);
    CHECK(requested[1].name == request);
    CHECK(requested[1].outcomes ==
          FetchOutcomes{kDone, OperationStatus::kAbsent, OperationStatus::kUntrusted});
    CHECK(!pool.serves(2));
    CHECK(Pool::publish(pool.home, request, some_bytes(20)) == kDone);
    CHECK(pool.is_answered(request));
}

TEST_CASE("a block that misses the deadline is late, and its request does not restart") {
    Pool pool;
    pool.offer(0);
    const wire::Name request = request_of({0});
    pool.ask(request);
    pool.home.forwarder.asked.clear();
    pool.home.now += 9s;
    pool.home.endpoint.on_timer(pool.home.now);
    const auto requested = pool.requested();
    REQUIRE(requested.size() == 1);
    CHECK(requested[0].outcomes == FetchOutcomes{OperationStatus::kDeadlineExceeded});
    pool.home.forwarder.asked.clear();
    pool.home.now += 4s;
    pool.ask(request);
    CHECK(pool.home.forwarder.asked.empty());
    pool.home.now += 60s;
    pool.home.endpoint.on_timer(pool.home.now);
    pool.ask(request);
    CHECK(!pool.home.forwarder.asked.empty());
}

TEST_CASE("kept blocks are bounded until they are reported") {
    Pool pool(2 * charge_of_one());
    for (int block = 0; block < 4; ++block) pool.offer(block);
    pool.ask(request_of({0, 1}));
    pool.carry();
    CHECK(pool.requested().size() == 2);
    pool.ask(request_of({2}, "h2", "2"));  // there is none left, and it is not even begun
    const auto left = pool.requested();
    REQUIRE(left.size() == 1);
    CHECK(left[0].outcomes.empty());
    pool.acknowledge(1, charge_of_one(), 2 * charge_of_one());
    const wire::Name both = request_of({2, 3}, "h2", "3");
    pool.ask(both);
    pool.carry();
    const auto requested = pool.requested();  // at once: the owner begins with both
    REQUIRE(requested.size() == 1);
    CHECK(requested[0].outcomes == FetchOutcomes{std::nullopt, std::nullopt});
    CHECK(!pool.is_answered(both));
    pool.ask(request_of({2}, "h2", "4"));
    pool.carry();
    CHECK(pool.is_answered(request_of({2}, "h2", "4")));
}

TEST_CASE("a failed operation frees its share of the window") {
    Pool pool(charge_of_one());
    pool.offer(0);
    for (int turn = 0; turn < 3; ++turn) {
        // The root comes, and room is taken; of the rest nothing does.
        pool.ask(request_of({0}, "h2", std::to_string(turn)));
        const wire::Name root = pool.home.forwarder.asked.at(0);
        const auto bytes = pool.source.produce(root).data.bytes();
        pool.home.receive(Bytes(bytes.begin(), bytes.end()));
        pool.home.forwarder.asked.clear();
        pool.home.now += 9s;
        pool.home.endpoint.on_timer(pool.home.now);
        pool.home.forwarder.asked.clear();
        const auto requested = pool.requested();
        REQUIRE(requested.size() == 1);
        CHECK(requested[0].outcomes == FetchOutcomes{OperationStatus::kDeadlineExceeded});
    }
    pool.ask(request_of({0}, "h2", "9"));
    pool.carry();
    CHECK(pool.is_answered(request_of({0}, "h2", "9")));
}

TEST_CASE("so many blocks are on their way at once") {
    Pool pool(1 << 20, 2);
    for (int block = 0; block < 4; ++block) pool.offer(block);
    pool.ask(request_of({0, 1, 2}, "h2", "1"));
    pool.ask(request_of({3}, "h2", "2"));
    CHECK(pool.home.forwarder.asked.size() == 2);
    pool.carry();
    CHECK(pool.is_answered(request_of({0, 1, 2}, "h2", "1")));
    CHECK(pool.is_answered(request_of({3}, "h2", "2")));
}

TEST_CASE("all other requests go to the owner unchanged") {
    Pool pool;
    pool.offer(0);
    pool.home.endpoint.expect_object(block_name(1));
    REQUIRE(Pool::publish(pool.home, block_name(2), some_bytes(10)) == kDone);
    const std::vector<wire::Name> others{
        request_of({0}, "h2", "1", "h1"),  // its source is this node
        request_of({0, 1}, "h2", "2"),     // somebody expects a block of it
        request_of({0, 2}, "h2", "3"),     // a block of it is here
        request_of({0, 0}, "h2", "4"),     // it is for one block twice
        request_of({0}, "h2", "no-nonce"),
        name("/kv/ab/request/h1/h2/5/drop/00ff/l/0-3/" + hash_of(0)),
        name("/kv/ab/request/h1"),
    };
    for (const wire::Name& request : others) {
        CAPTURE(request.view().to_uri());
        CHECK(pool.ask(request) == Kind::kPending);
        const auto requested = pool.requested();
        REQUIRE(requested.size() == 1);
        CHECK(requested[0].name == request);
        CHECK(!requested[0].kept);
        CHECK(requested[0].outcomes.empty());
    }
    CHECK(pool.home.forwarder.asked.empty());
}

TEST_CASE("a kept block is replaced by a publication until it is adopted") {
    Pool pool;
    pool.offer(0);
    pool.offer(1);
    pool.ask(request_of({0, 1}));
    pool.carry();
    const auto requested = pool.requested();
    REQUIRE(requested.size() == 2);
    pool.home.endpoint.withdraw_object(block_name(0));
    CHECK(pool.serves(0));
    CHECK(Pool::publish(pool.home, block_name(0), some_bytes(10)) == kDone);
    CHECK(requested[0].kept->is_replaced());
    CHECK(pool.serves(0));
    pool.home.endpoint.withdraw_object(block_name(0));
    CHECK(!pool.serves(0));
    pool.home.endpoint.adopt_objects({block_name(1)});
    CHECK(Pool::publish(pool.home, block_name(1), some_bytes(10)) == OperationStatus::kAborted);
    CHECK(!requested[1].kept->is_replaced());
    pool.home.endpoint.withdraw_object(block_name(1));
    CHECK(!pool.serves(1));
}

TEST_CASE("a name that is published while its block is fetched stays with the publisher") {
    Pool pool;
    pool.offer(0);
    const wire::Name request = request_of({0});
    pool.ask(request);
    REQUIRE(Pool::publish(pool.home, block_name(0), some_bytes(10)) == kDone);
    pool.carry();
    const auto requested = pool.requested();
    REQUIRE(requested.size() == 1);
    CHECK(requested[0].name == request);
    CHECK(requested[0].outcomes == FetchOutcomes{std::nullopt});
}

TEST_CASE("a dataset answer stays available for its lifetime") {
    Pool pool;
    pool.offer(0);
    const wire::Name request = request_of({0});
    pool.ask(request);
    pool.carry();
    pool.home.now += 4900ms;
    pool.home.endpoint.on_timer(pool.home.now);
    CHECK(pool.ask(request) == Kind::kData);
    pool.home.now = pool.home.endpoint.next_deadline();
    CHECK(pool.home.now < TimePoint(1h) + 6s);
    pool.home.endpoint.on_timer(pool.home.now);
    CHECK(pool.ask(request) == Kind::kPending);
}

TEST_CASE("a node that stops keeping serves and fetches none of the blocks") {
    Pool pool;
    pool.offer(0);
    pool.offer(1);
    pool.ask(request_of({0}, "h2", "1"));
    pool.carry();
    const auto requested = pool.requested();
    pool.ask(request_of({1}, "h2", "2"));
    pool.home.endpoint.stop_keeping(pool.requests, pool.home.now);
    pool.carry();
    CHECK(!pool.serves(0));
    CHECK(requested.at(0).kept->is_replaced());
    CHECK(pool.home.endpoint.describe_operations().empty());
    CHECK(pool.home.endpoint.counters().retained_bytes == 0);
    CHECK(pool.home.endpoint.next_deadline() == kNever);
    std::vector<OperationCompletion> ended;
    pool.home.endpoint.take_completions(ended);
    CHECK(ended.empty());
    pool.ask(request_of({1}, "h2", "3"));
    CHECK(pool.requested().size() == 1);
}

TEST_CASE("a node that stops keeping frees unreported blocks and starts again empty") {
    Pool pool(charge_of_one());
    pool.offer(0);
    pool.ask(request_of({0}));
    pool.carry();
    pool.home.endpoint.stop_keeping(pool.requests, pool.home.now);
    CHECK(pool.requested().empty());
    CHECK(!pool.serves(0));
    pool.keep(charge_of_one());
    pool.ask(request_of({0}, "h2", "2"));
    pool.carry();
    CHECK(pool.is_answered(request_of({0}, "h2", "2")));
    CHECK(pool.requested().size() == 1);
}

TEST_CASE("a watch also reports kept blocks") {
    Pool pool;
    pool.offer(0);
    pool.home.endpoint.watch_objects(7);
    pool.ask(request_of({0}));
    pool.carry();
    CHECK(pool.home.completion(7) == nullptr);
    pool.home.now += 20ms;
    pool.home.endpoint.on_timer(pool.home.now);
    REQUIRE(pool.home.completion(7) != nullptr);
    CHECK(pool.home.completion(7)->status == kDone);
}

TEST_CASE("a watch fires at once when half of the room is filled") {
    Pool pool(2 * charge_of_one());
    pool.offer(0);
    pool.offer(1);
    pool.home.endpoint.watch_objects(7);
    pool.ask(request_of({0}, "h2", "1"));
    pool.carry();
    CHECK(pool.home.completion(7) == nullptr);
    pool.ask(request_of({1}, "h2", "2"));
    pool.carry();
    CHECK(pool.home.completion(7) != nullptr);
}
