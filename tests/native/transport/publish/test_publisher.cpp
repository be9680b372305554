#include <doctest/doctest.h>

#include <string>

#include "transport/publish/publisher.hpp"
#include "transport/wire/text.hpp"

using namespace innet;
using namespace std::chrono_literals;

namespace {

wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }
TimePoint at(Duration since_start) { return TimePoint{} + since_start; }

/// Notes what the publisher asks of its node.
class NotingForwarder final : public Forwarder {
  public:
    void express(RequesterId, wire::NameView, wire::NameView, Duration) override {}
    void cancel(RequesterId, wire::NameView) override {}
    void put_data(RequesterId, PacketRef data, bool) override {
        put.push_back(wire::DataView::parse(data.bytes())->name().to_uri());
    }
    void offer_data(PacketRef data, wire::NameView hint, bool) override {
        offered.push_back(wire::DataView::parse(data.bytes())->name().to_uri() + " to " +
                          hint.to_uri());
    }
    void hold(wire::NameView, wire::ByteView) override {}
    void nack(wire::NameView nacked_name, wire::NackReason) override {
        nacked.push_back(nacked_name.to_uri());
    }

    std::vector<std::string> put;
    std::vector<std::string> offered;
    std::vector<std::string> nacked;
};

struct Fixture {
    Fixture() { publisher.register_producer(name("/job/g0/3"), "3"); }

    Production ask(const std::string& uri, TimePoint now = at(0s)) {
        const wire::Name asked = name(uri);
        Production production = publisher.produce(asked.view(), true);
        if (production.kind == Production::Kind::kPending) {
            publisher.await(asked.view(), now + 1s, now);
        }
        return production;
    }
    Production::Kind kind(const std::string& uri, TimePoint now = at(0s)) {
        return ask(uri, now).kind;
    }
    void publish(const PublicationSpec& spec) {
        publisher.publish(spec);
        publisher.answer_waiting(spec);
    }
    PublicationSpec spec(const std::string& kind_uri, std::uint64_t seq) {
        PublicationSpec made;
        made.prefix = name("/job/g0/3");
        made.kind = name(kind_uri);
        made.seq = seq;
        made.tensor = tensor;
        made.segmentation = {1, tensor.size(), 100};
        made.tensor_elements = tensor.size();
        made.description = "rank 3: " + kind_uri;
        return made;
    }

    NotingForwarder forwarder;
    PacketPool pool;
    std::unique_ptr<security::Signer> signer = security::make_digest_signer();
    std::vector<std::uint8_t> tensor = std::vector<std::uint8_t>(300);
    Publisher publisher{1, forwarder, pool, *signer};
};

using Kind = Production::Kind;

}  // namespace

TEST_CASE("segments are sent ahead of the requests for their sums, unless they were asked for") {
    Fixture fixture;
    const wire::Name hint = name("/n/s0");
    const PublicationSpec spec = fixture.spec("/sum.u8", 1);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1/seg=1") == Kind::kPending);
    const auto published = fixture.publisher.publish(spec);
    fixture.publisher.answer_waiting(spec);
    for (const std::uint64_t segment : {0, 1, 2}) {
        fixture.publisher.offer(*published, segment, hint.view());
    }
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/sum.u8/seq=1/seg=1"});
    CHECK(fixture.forwarder.offered ==
          std::vector<std::string>{"/job/g0/3/sum.u8/seq=1/seg=0 to /n/s0",
                                   "/job/g0/3/sum.u8/seq=1/seg=2 to /n/s0"});
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1/seg=0") == Kind::kData);
    fixture.publisher.offer(*published, 0, hint.view());
    CHECK(fixture.forwarder.offered.size() == 2);
}

TEST_CASE("what was given up is not sent ahead") {
    Fixture fixture;
    const auto published = fixture.publisher.publish(fixture.spec("/sum.u8", 1));
    published->abort("it took too long");
    fixture.publisher.offer(*published, 0, name("/n/s0").view());
    CHECK(fixture.forwarder.offered.empty());
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1/seg=0") == Kind::kData);
}

TEST_CASE("what is sent ahead in vain is sent ahead now and then only, until it is not in vain") {
    Fixture fixture;
    const wire::Name hint = name("/n/s0");
    std::uint64_t seq = 0;
    const auto sent_ahead = [&](int calls, bool requested) {
        fixture.forwarder.offered.clear();
        for (int call = 0; call < calls; ++call) {
            const auto published = fixture.publisher.publish(fixture.spec("/sum.u8", ++seq));
            fixture.publisher.offer(*published, 0, hint.view());
            const std::string uri = "/job/g0/3/sum.u8/seq=" + std::to_string(seq) + "/seg=0";
            if (requested) CHECK(fixture.kind(uri) == Kind::kData);
        }
        return fixture.forwarder.offered.size();
    };
    CHECK(sent_ahead(100, false) == 100);
    CHECK(sent_ahead(100, true) < 20);
    CHECK(sent_ahead(16, false) >= 1);
    CHECK(sent_ahead(100, false) == 100);
}

TEST_CASE("names outside the registered prefixes, or without seq and seg, are not ours") {
    Fixture fixture;
    CHECK(fixture.kind("/job/g0/4/sum.u8/seq=1/seg=0") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seg=1") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3") == Kind::kNotMine);
    CHECK(fixture.kind("/seg=1") == Kind::kNotMine);
}

TEST_CASE("early Interests wait with the label, and are answered in order, each once") {
    Fixture fixture;
    for (const int segment : {2, 0, 1, 0, 2}) {
        const Production pending =
            fixture.ask("/job/g0/3/sum.u8/seq=5/seg=" + std::to_string(segment));
        CHECK(pending.kind == Kind::kPending);
        CHECK(std::string(pending.missing.begin(), pending.missing.end()) == "3");
    }
    fixture.ask("/job/g0/3/sum.u8/seq=6/seg=0");
    fixture.publish(fixture.spec("/sum.u8", 5));
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/sum.u8/seq=5/seg=0",
                                                            "/job/g0/3/sum.u8/seq=5/seg=1",
                                                            "/job/g0/3/sum.u8/seq=5/seg=2"});
    CHECK(fixture.publisher.waiting_count() == 1);
}

TEST_CASE("a departed requester is not answered and frees its place") {
    Fixture fixture;
    for (const auto* segment : {"0", "1", "1"}) {
        fixture.ask(std::string("/job/g0/3/sum.u8/seq=5/seg=") + segment);
    }
    CHECK(fixture.publisher.waiting_count() == 2);
    for (const auto* gone : {"/job/g0/3/sum.u8/seq=5/seg=1", "/job/g0/3/sum.u8/seq=5/seg=7",
                             "/job/g0/3/sum.u8/seq=6/seg=0", "/elsewhere", "/job/g0/3/x/seg=0"}) {
        fixture.publisher.forget(name(gone).view());
    }
    CHECK(fixture.publisher.waiting_count() == 1);
    fixture.publish(fixture.spec("/sum.u8", 5));
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/sum.u8/seq=5/seg=0"});
}

TEST_CASE("an Interest without a refresh expires") {
    Fixture fixture;
    for (int seq = 0; seq < 100; ++seq) {
        fixture.ask("/job/g0/3/sum.u8/seq=" + std::to_string(seq) + "/seg=0", at(seq * 1s));
    }
    CHECK(fixture.publisher.waiting_count() <= 2);
}

TEST_CASE(
    "a flood of Interests for tensors that never come is forgotten as fast as another comes") {
    constexpr int kFlood = 20'000;
    Fixture fixture;
    for (int seq = 0; seq < kFlood; ++seq) {
        fixture.ask("/job/g0/3/sum.u8/seq=" + std::to_string(seq) + "/seg=0");
    }
    REQUIRE(fixture.publisher.waiting_count() == kFlood);
    // Each Interest drops at most two, so none takes time for all.
    fixture.ask("/job/g0/3/max.u8/seq=0/seg=0", at(2s));
    CHECK(fixture.publisher.waiting_count() == kFlood + 1 - 2);
    for (int seq = 1; seq < kFlood; ++seq) {
        fixture.ask("/job/g0/3/max.u8/seq=" + std::to_string(seq) + "/seg=0", at(2s));
    }
    CHECK(fixture.publisher.waiting_count() == kFlood);
}

TEST_CASE("a request after a flood that filled the memory is answered at publication") {
    Fixture fixture;
    for (std::size_t seq = 10; seq < 10 + WaitingTensors::kMaxSegments + 5; ++seq) {
        fixture.ask("/job/g0/3/sum.u8/seq=" + std::to_string(seq) + "/seg=0");
    }
    CHECK(fixture.publisher.waiting_count() == WaitingTensors::kMaxSegments);
    fixture.ask("/job/g0/3/sum.u8/seq=1/seg=0");
    CHECK(fixture.publisher.waiting_count() == WaitingTensors::kMaxSegments);
    fixture.publish(fixture.spec("/sum.u8", 1));
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/sum.u8/seq=1/seg=0"});
}

TEST_CASE("segments of one tensor beyond the bound are not remembered, and push out none of it") {
    Fixture fixture;
    for (std::size_t segment = 0; segment < WaitingTensors::kMaxSegments + 5; ++segment) {
        fixture.ask("/job/g0/3/sum.u8/seq=1/seg=" + std::to_string(segment));
    }
    CHECK(fixture.publisher.waiting_count() == WaitingTensors::kMaxSegments);
}

TEST_CASE("a refused block leaves nothing behind") {
    Fixture fixture;
    const wire::Name asked = name("/job/g0/3/sum.u8/seq=1/seg=0");
    CHECK(fixture.publisher.produce(asked.view(), true).kind == Kind::kPending);
    CHECK(fixture.publisher.waiting_count() == 0);
}

TEST_CASE("any number of repetitions of one Interest is remembered as one") {
    Fixture fixture;
    for (int i = 0; i < 10'000; ++i) fixture.ask("/job/g0/3/sum.u8/seq=0/seg=0");
    CHECK(fixture.publisher.waiting_count() <= 4);
}

TEST_CASE("retired Data is gone; unpublished Data is still awaited") {
    Fixture fixture;
    for (const std::uint64_t seq : {1U, 2U, 3U}) {
        fixture.publish(fixture.spec("/sum.u8", seq));
    }
    fixture.publisher.retire(name("/job/g0/3"), 2);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=2/seg=0") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=0/seg=0") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=3/seg=0") == Kind::kData);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=4/seg=0") == Kind::kPending);
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/0/seq=1/seg=0") == Kind::kPending);
    CHECK(fixture.publisher.refusal(fixture.spec("/sum.u8", 2)).has_value());
}

TEST_CASE("a request for Data that an ended producer never published gets an error") {
    Fixture fixture;
    fixture.ask("/job/g0/3/sum.u8/seq=4/seg=0");
    fixture.ask("/job/g0/3/sum.u8/seq=5/seg=1");
    fixture.ask("/job/g0/3/p2p.u8/0/0/seq=5/seg=0");
    fixture.publisher.end_producer(name("/job/g0/3"), 5, "rank 3 left");
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/sum.u8/seq=5/seg=1"});
    CHECK(fixture.publisher.waiting_count() == 2);
    const Production late = fixture.ask("/job/g0/3/max.u8/seq=9/seg=0");
    REQUIRE(late.kind == Kind::kData);
    const auto error = wire::DataView::parse(late.data.bytes());
    CHECK(error->tensor_error() == static_cast<std::uint64_t>(wire::TensorErrorCode::kAborted));
    // Called before the end, and waiting for its turn.
    fixture.publish(fixture.spec("/sum.u8", 4));
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=4/seg=0") == Kind::kData);
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/0/seq=6/seg=0") == Kind::kPending);
}

TEST_CASE("a producer that publishes nothing more refuses what it has not published") {
    Fixture fixture;
    fixture.publish(fixture.spec("/p2p.u8/0/0", 1));
    fixture.ask("/job/g0/3/p2p.u8/0/0/seq=2/seg=0");
    fixture.publisher.end_producer(name("/job/g0/3"), std::nullopt, "rank 3 left");
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/p2p.u8/0/0/seq=2/seg=0"});
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/0/seq=1/seg=0") == Kind::kData);
    const Production late = fixture.ask("/job/g0/3/p2p.u8/0/7/seq=0/seg=0");
    REQUIRE(late.kind == Kind::kData);
    const auto error = wire::DataView::parse(late.data.bytes());
    CHECK(error->tensor_error() == static_cast<std::uint64_t>(wire::TensorErrorCode::kAborted));
}

TEST_CASE("a failed call answers pending and later requests of every type") {
    Fixture fixture;
    fixture.ask("/job/g0/3/sum.u8/seq=4/seg=0");
    fixture.ask("/job/g0/3/max.f32/seq=4/seg=1");
    fixture.ask("/job/g0/3/sum.u8/seq=5/seg=0");
    fixture.ask("/job/g0/3/p2p.u8/0/7/seq=4/seg=0");
    fixture.publisher.fail({{name("/job/g0/3"), name("/job/other/3")},
                            {},
                            4,
                            wire::TensorErrorCode::kOverflow,
                            "rank 3 (h3): no room"});
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/sum.u8/seq=4/seg=0",
                                                            "/job/g0/3/max.f32/seq=4/seg=1"});
    CHECK(fixture.publisher.waiting_count() == 2);
    const Production late = fixture.ask("/job/g0/3/prod.i64/seq=4/seg=9");
    REQUIRE(late.kind == Kind::kData);
    const auto error = wire::DataView::parse(late.data.bytes());
    CHECK(error->tensor_error() == static_cast<std::uint64_t>(wire::TensorErrorCode::kOverflow));
    const wire::ByteView why = error->content();
    CHECK(std::string(why.begin(), why.end()) == "rank 3 (h3): no room");
    fixture.publish(fixture.spec("/sum.u8", 5));
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=5/seg=0") == Kind::kData);
    fixture.publisher.retire(name("/job/g0/3"), 4);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=4/seg=0") != Kind::kData);
}

TEST_CASE("the failure of a message is no failure of a collective or of another message") {
    Fixture fixture;
    const FailureSpec failure{
        {name("/job/g0/3")}, name("/0/7"), 1, wire::TensorErrorCode::kFailed, "no message"};
    fixture.ask("/job/g0/3/f32/0/7/seq=1/seg=0");
    fixture.publisher.fail(failure);
    CHECK(fixture.forwarder.put == std::vector<std::string>{"/job/g0/3/f32/0/7/seq=1/seg=0"});
    CHECK(fixture.kind("/job/g0/3/i8/0/7/seq=1/seg=0") == Kind::kData);
    CHECK(fixture.kind("/job/g0/3/f32/seq=1/seg=0") == Kind::kPending);
    CHECK(fixture.kind("/job/g0/3/f32/0/8/seq=1/seg=0") == Kind::kPending);
    CHECK(fixture.kind("/job/g0/3/f32/0/7/seq=2/seg=0") == Kind::kPending);
    fixture.publisher.retire(name("/job/g0/3"), 9);
    CHECK(fixture.kind("/job/g0/3/f32/0/7/seq=1/seg=0") == Kind::kData);
    fixture.publisher.retire(name("/job/g0/3/f32/0/7"), 1);
    CHECK(fixture.kind("/job/g0/3/f32/0/7/seq=1/seg=0") != Kind::kData);
}

TEST_CASE("a receiver of a message with another type receives an error that names the message") {
    Fixture fixture;
    PublicationSpec message = fixture.spec("/f32/0/7", 1);
    message.exclusive_seq = false;
    message.description = "rank 3: send(f32)";
    const std::string asked = "/job/g0/3/f64/0/7/seq=1/seg=0";
    fixture.ask(asked);
    fixture.publish(message);
    CHECK(fixture.forwarder.put == std::vector<std::string>{asked});
    const Production late = fixture.ask(asked);
    REQUIRE(late.kind == Kind::kData);
    const auto answer = wire::DataView::parse(late.data.bytes());
    CHECK(answer->tensor_error() == static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch));
    for (const std::string other :
         {"f64/0/8/seq=1", "f64/1/7/seq=1", "f64/0/7/seq=2", "f64/0/seq=1"}) {
        CHECK(fixture.kind("/job/g0/3/" + other + "/seg=0") == Kind::kPending);
    }
}

TEST_CASE("messages are retired by their own name") {
    Fixture fixture;
    PublicationSpec message = fixture.spec("/p2p.u8/0/7", 1);
    message.exclusive_seq = false;
    fixture.publish(message);
    fixture.publisher.retire(name("/job/g0/3"), 9);
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/7/seq=1/seg=0") == Kind::kData);
    fixture.publisher.retire(name("/job/g0/3/p2p.u8/0/7"), 1);
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/7/seq=1/seg=0") == Kind::kNotMine);
    CHECK(fixture.publisher.retained_bytes() == 0);
}

TEST_CASE("the number of kinds whose retired numbers are remembered is bounded") {
    Fixture fixture;
    const auto tag = [](std::size_t number) { return "/p2p.u8/0/" + std::to_string(number); };
    for (std::size_t number = 0; number <= PublicationTable::kMaxWatermarks; ++number) {
        PublicationSpec message = fixture.spec(tag(number), 0);
        message.exclusive_seq = false;
        fixture.publish(message);
        fixture.publisher.retire(name("/job/g0/3" + tag(number)), 0);
    }
    const std::string newest = tag(PublicationTable::kMaxWatermarks);
    CHECK(fixture.kind("/job/g0/3" + newest + "/seq=0/seg=0") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3" + tag(1) + "/seq=0/seg=0") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3" + tag(0) + "/seq=0/seg=0") == Kind::kPending);
}

TEST_CASE("a kind loses the numbers up to the retired one, and keeps the others") {
    Fixture fixture;
    for (std::uint64_t seq = 0; seq < 5; ++seq) {
        PublicationSpec message = fixture.spec("/p2p.u8/0/7", seq);
        message.exclusive_seq = false;
        fixture.publish(message);
    }
    fixture.publisher.retire(name("/job/g0/3/p2p.u8/0/7"), 2);
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/7/seq=2/seg=0") == Kind::kNotMine);
    CHECK(fixture.kind("/job/g0/3/p2p.u8/0/7/seq=3/seg=0") == Kind::kData);
    CHECK(fixture.kind("/job/g0/3/p2p.f32/0/7/seq=3/seg=0") == Kind::kData);  // a mismatch
    CHECK(fixture.kind("/job/g0/3/p2p.f32/0/7/seq=5/seg=0") == Kind::kPending);
}

TEST_CASE("unregistering notifies pending requesters") {
    Fixture fixture;
    fixture.publish(fixture.spec("/sum.u8", 1));
    fixture.ask("/job/g0/3/sum.u8/seq=2/seg=4");
    fixture.publisher.unregister_producer(name("/job/g0/3"));
    CHECK(fixture.forwarder.nacked == std::vector<std::string>{"/job/g0/3/sum.u8/seq=2/seg=4"});
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1/seg=0") == Kind::kNotMine);
    CHECK(fixture.publisher.waiting_count() == 0);
}

TEST_CASE("the longest registered prefix owns a name") {
    Fixture fixture;
    fixture.publisher.register_producer(name("/job/g0/3/p2p.u8"), "messages of 3");
    const Production pending = fixture.ask("/job/g0/3/p2p.u8/0/0/seq=1/seg=0");
    CHECK(std::string(pending.missing.begin(), pending.missing.end()) == "messages of 3");
}

TEST_CASE("a text of earlier calls that packets have no room for is refused") {
    Fixture fixture;
    PublicationSpec spec = fixture.spec("/sum.u8", 1);
    spec.earlier_calls.assign(wire::kMaxEarlierCalls, 'x');
    CHECK_FALSE(fixture.publisher.refusal(spec).has_value());
    spec.earlier_calls += 'x';
    CHECK(fixture.publisher.refusal(spec).has_value());
}

TEST_CASE("ends that do not cut the tensor into segments that fit are refused") {
    Fixture fixture;
    const auto refused = [&](const std::vector<std::uint64_t>& ends) {
        PublicationSpec spec = fixture.spec("/sum.u8", 2);
        spec.segment_ends = ends;
        return fixture.publisher.refusal(spec).has_value();
    };
    CHECK(!refused({100, 200, 300}));
    CHECK(refused({100, 300}));       // one segment is missing
    CHECK(refused({100, 250, 240}));  // goes back
    CHECK(refused({100, 201, 300}));  // a segment above the limit
    CHECK(refused({100, 200, 299}));  // a byte that is in no segment
    CHECK(refused({100, 200, 301}));  // beyond the tensor
}

TEST_CASE("a group's producers sign with its key, also for earlier publications") {
    Fixture fixture;
    const auto key_of = [&](const std::string& uri) {
        const Production production = fixture.ask(uri);
        REQUIRE(production.kind == Kind::kData);
        return wire::DataView::parse(production.data.bytes())->key_name().to_uri();
    };
    const std::vector<std::uint8_t> secret(16, 7);
    fixture.publisher.set_signer(name("/job/g1"),
                                 security::make_gmac_signer(name("/job/KEY/v=1"), secret, {}));
    fixture.publisher.register_producer(name("/job/g1/3"), "3");
    PublicationSpec spec = fixture.spec("/sum.u8", 1);
    fixture.publish(spec);
    spec.prefix = name("/job/g1/3");
    fixture.publish(spec);
    CHECK(key_of("/job/g0/3/sum.u8/seq=1/seg=0") == "/");
    CHECK(key_of("/job/g1/3/sum.u8/seq=1/seg=0") == "/job/KEY/v=1");
    fixture.publisher.set_signer(name("/job/g1"), nullptr);
    CHECK(key_of("/job/g1/3/sum.u8/seq=1/seg=1") == "/job/KEY/v=1");
}

TEST_CASE("the number of remembered failures is bounded") {
    Fixture fixture;
    for (std::uint64_t seq = 0; seq < 3000; ++seq) {
        fixture.publisher.fail({.prefixes = {name("/job/g0/3")},
                                .suffix = {},
                                .seq = seq,
                                .code = wire::TensorErrorCode::kFailed,
                                .why = "rank 3 failed"});
    }
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=2999/seg=0") == Kind::kData);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1976/seg=0") == Kind::kData);
    CHECK(fixture.kind("/job/g0/3/sum.u8/seq=1975/seg=0") == Kind::kPending);
}
