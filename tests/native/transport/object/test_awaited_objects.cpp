// Objects that are asked for before they are there: who waits, who is told, and how it ends.

#include "object_hosts.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

wire::Name root_of(const std::string& object) { return name(object + "/32=manifest/seg=0"); }

/// A cache of objects under /kv/t, which answers requests under /kv/t/request/h1.
struct Cache : ObjectHost {
    Cache() : ObjectHost("h1") {
        endpoint.register_objects(name("/kv/t"), "h1", MissingObject::kRefuse);
        endpoint.register_objects(name("/kv/t/request/h1"), "h1", MissingObject::kWait);
    }

    Production::Kind ask(const wire::Name& packet) { return produce(packet).kind; }

    std::vector<std::string> asked() {
        std::vector<std::string> uris;
        for (const RequestedObject& one : endpoint.take_requested_objects()) {
            uris.push_back(one.name.view().to_uri());
        }
        return uris;
    }

    OperationStatus publish(const std::string& object, std::size_t size = 5000) {
        const Bytes bytes = some_bytes(size);
        endpoint.publish_object(++last_id, {name(object), bytes, 1024}, key_of("h1"));
        while (completion(last_id) == nullptr) endpoint.on_timer(now);
        return completion(last_id)->status;
    }

    OperationId last_id = 0;
};

using Uris = std::vector<std::string>;

constexpr auto kRequest = "/kv/t/request/h1/h2/7/keep";
constexpr auto kBlock = "/kv/t/m/l/0-3/b1";

}  // namespace

TEST_CASE("the longest prefix decides how a request is answered") {
    Cache cache;
    CHECK(cache.ask(root_of(kRequest)) == Production::Kind::kPending);
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kAbsent);
    CHECK(cache.ask(root_of("/kv/other/b")) == Production::Kind::kNotMine);
    cache.endpoint.unregister_objects(name("/kv/t/request/h1"));
    CHECK(cache.ask(root_of(kRequest)) == Production::Kind::kAbsent);
    cache.endpoint.unregister_objects(name("/kv/t"));
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kNotMine);
}

TEST_CASE(
    "a request is reported once while its Interest is pending, and again when repeated later") {
    Cache cache;
    for (int i = 0; i < 3; ++i) cache.ask(root_of(kRequest));
    CHECK(cache.asked() == Uris{kRequest});
    cache.now += 3s;  // repeated in time, it is still the same
    cache.ask(root_of(kRequest));
    cache.now += 3s;
    cache.ask(root_of(kRequest));
    CHECK(cache.asked().empty());
    cache.now += 60s;
    cache.ask(root_of(kRequest));
    CHECK(cache.asked() == Uris{kRequest});
    CHECK(cache.publish(kRequest) == OperationStatus::kDone);
    CHECK(cache.ask(root_of(kRequest)) == Production::Kind::kData);
    CHECK(cache.asked().empty());
}

TEST_CASE("many departed requesters are forgotten") {
    Cache cache;
    AwaitedObjects awaited;
    for (int i = 0; i < 10'000; ++i) {
        const wire::Name object = name("/kv/t/request/h1/" + std::to_string(i));
        CHECK(awaited.wait(object.view(), object.view(), cache.now, cache.now + 4s));
        cache.now += 10ms;
    }
    // 400 wait at a time; no more than the least worth a look, and what came since, is kept.
    CHECK(awaited.take_under(name("/kv")).size() <= 2048);
}

TEST_CASE("a flood of absent objects evicts old expectations and refuses no later request") {
    AwaitedObjects awaited;
    const TimePoint now{};
    for (std::size_t i = 0; i < AwaitedObjects::kMaxPackets + 100; ++i) {
        const wire::Name object = name("/kv/t/flood/" + std::to_string(i));
        CHECK(awaited.wait(object.view(), object.view(), now, now + 60s));
    }
    CHECK(awaited.waiting_packets() == AwaitedObjects::kMaxPackets);
    const wire::Name object = name(kRequest);
    CHECK(awaited.wait(object.view(), object.view(), now, now + 60s));
    CHECK(awaited.waiting_packets() == AwaitedObjects::kMaxPackets);
    CHECK(awaited.take(object.view()) == std::vector{object});
    CHECK(awaited.take(name("/kv/t/flood/0").view()).empty());
    awaited.take_under(name("/kv"));
    CHECK(awaited.waiting_packets() == 0);
}

TEST_CASE("a departed requester frees its place, and the object stays expected") {
    AwaitedObjects awaited;
    const TimePoint now{};
    const wire::Name object = name(kBlock);
    const wire::Name segment = name(std::string(kBlock) + "/seg=1");
    awaited.expect(object);
    awaited.wait(object.view(), object.view(), now, now + 60s);
    awaited.wait(object.view(), segment.view(), now, now + 60s);
    awaited.forget(object.view(), object.view());
    awaited.forget(object.view(), object.view());
    CHECK(awaited.waiting_packets() == 1);
    awaited.forget(object.view(), segment.view());
    CHECK(awaited.waiting_packets() == 0);
    CHECK(awaited.expects(object.view()));
    const wire::Name other = name(kRequest);
    CHECK(awaited.wait(other.view(), other.view(), now, now + 60s));
    awaited.forget(other.view(), other.view());
    CHECK(awaited.wait(other.view(), other.view(), now, now + 60s));  // for the first time again
}

TEST_CASE("packets of one object beyond the bound are not remembered, and push out none of it") {
    AwaitedObjects awaited;
    const TimePoint now{};
    const wire::Name object = name(kBlock);
    awaited.expect(object);
    for (std::size_t i = 0; i < AwaitedObjects::kMaxPackets + 100; ++i) {
        const wire::Name packet = name(std::string(kBlock) + "/seg=" + std::to_string(i));
        CHECK(awaited.wait(object.view(), packet.view(), now, now + 60s) == (i == 0));
    }
    CHECK(awaited.expects(object.view()));
    CHECK(awaited.take(object.view()).size() == AwaitedObjects::kMaxPackets);
}

TEST_CASE("a watch ends at the first request") {
    Cache cache;
    cache.endpoint.watch_objects(90);
    CHECK(cache.completion(90) == nullptr);
    cache.ask(root_of(kBlock));  // which is refused
    CHECK(cache.completion(90) == nullptr);
    cache.ask(root_of(kRequest));
    REQUIRE(cache.completion(90) != nullptr);
    CHECK(cache.completion(90)->status == OperationStatus::kDone);
    cache.endpoint.watch_objects(91);
    CHECK(cache.completion(91)->status == OperationStatus::kDone);  // it was not taken yet
    CHECK(cache.asked() == Uris{kRequest});
    cache.endpoint.watch_objects(92);
    CHECK(cache.completion(92) == nullptr);
    cache.endpoint.cancel(92, cache.now);
    CHECK(cache.completion(92)->status == OperationStatus::kCancelled);
    cache.endpoint.watch_objects(93);
    cache.endpoint.abort(wire::Name(), "the node stops", cache.now);
    CHECK(cache.completion(93)->detail == "the node stops");
}

TEST_CASE("delivered objects are reported in batches, within 10 ms") {
    Cache cache;
    cache.publish(kBlock);
    cache.endpoint.watch_objects(90);
    for (int i = 0; i < 3; ++i) {
        cache.ask(root_of(kBlock));
        CHECK(cache.completion(90) == nullptr);
        CHECK(cache.endpoint.next_deadline() <= cache.now + 10ms);
        cache.now += 1ms;
    }
    cache.now = cache.endpoint.next_deadline();
    cache.endpoint.on_timer(cache.now);
    REQUIRE(cache.completion(90) != nullptr);
    CHECK(cache.asked() == Uris{kBlock, kBlock, kBlock});
    cache.endpoint.watch_objects(91);
    CHECK(cache.endpoint.next_deadline() == kNever);
}

TEST_CASE("served objects are reported at once together with a pending request") {
    Cache cache;
    cache.publish(kBlock);
    cache.endpoint.watch_objects(90);
    cache.ask(root_of(kBlock));
    cache.ask(root_of(kRequest));
    CHECK(cache.completion(90) != nullptr);
    CHECK(cache.asked() == Uris{kBlock, kRequest});
}

TEST_CASE("a request for an expected object waits for all of its packets") {
    Cache cache;
    cache.endpoint.expect_object(name(kBlock));
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kPending);
    CHECK(cache.asked() == Uris{kBlock});
    const auto foreign = name(std::string(kBlock) + "/seg=0")
                             .append(wire::kImplicitSha256Digest, security::Sha256Digest{});
    CHECK(cache.ask(foreign) == Production::Kind::kPending);
    CHECK(cache.ask(name(std::string(kBlock) + "/seg=1")) == Production::Kind::kPending);
    CHECK(cache.publish(kBlock) == OperationStatus::kDone);
    CHECK(cache.forwarder.put.size() == 2);  // the root and segment 1
    REQUIRE(cache.forwarder.refused.size() == 1);
    CHECK(cache.forwarder.refused[0].first == foreign);
    cache.endpoint.withdraw_object(name(kBlock));
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kAbsent);
}

TEST_CASE("a pending request for a withdrawn object is refused at once") {
    Cache cache;
    cache.endpoint.expect_object(name(kBlock));
    for (const char* object : {kBlock, kRequest}) {
        CAPTURE(object);
        cache.forwarder.refused.clear();
        cache.ask(root_of(object));
        cache.endpoint.withdraw_object(name(object));
        REQUIRE(cache.forwarder.refused.size() == 1);
        CHECK(cache.forwarder.refused[0].first == root_of(object));
        CHECK(cache.forwarder.refused[0].second == wire::NackReason::kNoData);
        cache.endpoint.withdraw_object(name(object));  // which nobody knows any more
        CHECK(cache.forwarder.refused.size() == 1);
    }
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kAbsent);
}

TEST_CASE("a request for an object that is being segmented waits until that succeeds or fails") {
    Cache cache;
    const Bytes bytes = some_bytes(1'000'000);
    cache.endpoint.publish_object(50, {name(kBlock), bytes, 1024}, key_of("h1"));
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kPending);
    cache.endpoint.withdraw_object(name(kBlock));
    CHECK(cache.completion(50)->status == OperationStatus::kCancelled);
    REQUIRE(cache.forwarder.refused.size() == 1);
    CHECK(cache.ask(root_of(kBlock)) == Production::Kind::kAbsent);
    CHECK(cache.publish(kBlock) == OperationStatus::kDone);
}

TEST_CASE("an Interest with another node's hint is forwarded at once") {
    Cache cache;
    cache.endpoint.expect_object(name(kBlock));
    const wire::Name elsewhere = name("/n/h2");
    CHECK(cache.produce(root_of(kBlock), elsewhere).kind == Production::Kind::kNotMine);
    CHECK(cache.produce(root_of(kRequest), elsewhere).kind == Production::Kind::kNotMine);
    CHECK(cache.asked().empty());
    CHECK(cache.produce(root_of(kBlock), name("/n/h1")).kind == Production::Kind::kPending);
    cache.publish(kBlock);
    CHECK(cache.produce(root_of(kBlock), elsewhere).kind == Production::Kind::kData);
}
