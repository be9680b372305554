#pragma once
// An endpoint that publishes objects and one that fetches them, with packets carried by hand.

#include <doctest/doctest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/native/support/signed_data.hpp"
#include "transport/endpoint/endpoint.hpp"
#include "transport/security/sha256.hpp"

namespace innet::testing {

using namespace std::chrono_literals;
using test::Bytes;

inline wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }

inline Bytes some_bytes(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * i / 7 + i);
    return bytes;
}

inline std::unique_ptr<security::Signer> key_of(const std::string& node) {
    return security::make_ed25519_signer(name("/n/" + node + "/KEY"), Bytes(32, 9));
}

/// Remembers what an endpoint asked of its node.
class RecordingForwarder final : public Forwarder {
  public:
    void express(RequesterId, wire::NameView asked_name, wire::NameView hint, Duration) override {
        asked.emplace_back(asked_name);
        hints.emplace_back(hint);
    }
    void express_fresh(RequesterId requester, wire::NameView asked_name, wire::NameView hint,
                       Duration lifetime) override {
        asked_past_caches.emplace_back(asked_name);
        express(requester, asked_name, hint, lifetime);
    }
    void express_to_neighbour(RequesterId requester, wire::NameView asked_name, wire::NameView hint,
                              Duration lifetime, PacketRef) override {
        asked_of_neighbours.emplace_back(asked_name);
        express(requester, asked_name, hint, lifetime);
    }
    void cancel(RequesterId, wire::NameView cancelled_name) override {
        cancelled.emplace_back(cancelled_name);
    }
    void put_data(RequesterId, PacketRef data, bool) override { put.push_back(std::move(data)); }
    void hold(wire::NameView, wire::ByteView) override {}
    void nack(wire::NameView refused_name, wire::NackReason reason) override {
        refused.emplace_back(wire::Name(refused_name), reason);
    }

    std::vector<wire::Name> asked;
    std::vector<wire::Name> asked_past_caches;    ///< among them
    std::vector<wire::Name> asked_of_neighbours;  ///< likewise
    std::vector<wire::Name> hints;
    std::vector<wire::Name> cancelled;
    std::vector<PacketRef> put;
    std::vector<std::pair<wire::Name, wire::NackReason>> refused;
};

/// One endpoint. `now` moves only when a test says so.
struct ObjectHost {
    explicit ObjectHost(const std::string& node)
        : endpoint({}, name("/n/" + node), forwarder, pool, *signer) {}

    const OperationCompletion* completion(OperationId id) {
        endpoint.take_completions(completions);
        for (const OperationCompletion& one : completions) {
            if (one.id == id) return &one;
        }
        return nullptr;
    }

    Production produce(const wire::Name& wanted, const wire::Name& hint = wire::Name()) {
        wire::InterestFields fields;
        fields.name = wanted.view();
        fields.forwarding_hint = hint.view();
        return produce(fields);
    }

    Production produce(const wire::InterestFields& fields) {
        Bytes packet(512);
        packet.resize(wire::encode_interest(fields, packet));
        const auto interest = wire::InterestView::parse(packet);
        Production production = endpoint.produce(*interest, true, now);
        if (production.kind == Production::Kind::kPending) endpoint.await(*interest, now);
        return production;
    }

    void receive(const Bytes& packet) {
        const PacketRef held = pool.copy_of(packet);
        const auto data = wire::DataView::parse(held.bytes());
        if (data) endpoint.on_data(*data, held, false, now);
    }

    PacketPool pool;
    std::unique_ptr<security::Signer> signer = security::make_digest_signer();
    RecordingForwarder forwarder;
    Endpoint endpoint;
    std::vector<OperationCompletion> completions;
    TimePoint now{1h};
};

using Packets = std::vector<Bytes>;

/// What becomes of a packet between publisher and fetcher: the packets that arrive instead.
using OnTheWay = std::function<Packets(const Bytes&)>;

/// Rank 1's node h1 publishes `/j/g0/obj/1/model`; another node fetches it.
struct ObjectHosts {
    explicit ObjectHosts(std::size_t max_packet_bytes = 1024) : packet_bytes(max_packet_bytes) {
        publisher.endpoint.register_objects(name("/j/g0/obj/1"), "rank 1");
    }

    const OperationCompletion* publish(const Bytes& bytes, const std::string& signing_node = "h1",
                                       const wire::Name& as = name("/j/g0/obj/1/model")) {
        const OperationId id = next_id++;
        publisher.endpoint.publish_object(id, {as, bytes, packet_bytes}, key_of(signing_node));
        while (publisher.completion(id) == nullptr) publisher.endpoint.on_timer(publisher.now);
        return publisher.completion(id);
    }

    OperationId start_fetch(bool may_be_absent = false) {
        const OperationId id = next_id++;
        fetcher.endpoint.fetch_object(
            id,
            {object, name("/n/h1"), name("/n/h1/KEY"), memory, fetcher.now + 10s, may_be_absent},
            fetcher.now);
        return id;
    }

    /// Carries every packet asked for, and repeats what got lost, until the fetch ends.
    const OperationCompletion* carry(OperationId id, const OnTheWay& on_the_way = {}) {
        for (int round = 0; round < 1000; ++round) {
            for (const wire::Name& wanted : std::exchange(fetcher.forwarder.asked, {})) {
                asked.push_back(wanted);
                const Production made = publisher.produce(wanted);
                if (made.kind != Production::Kind::kData) continue;
                const Bytes packet(made.data.bytes().begin(), made.data.bytes().end());
                CHECK(packet.size() <= packet_bytes);
                for (const Bytes& one : on_the_way ? on_the_way(packet) : Packets{packet}) {
                    fetcher.receive(one);
                }
            }
            if (const auto* ended = fetcher.completion(id)) return ended;
            if (!fetcher.forwarder.asked.empty()) continue;  // answers opened the window
            fetcher.now = std::max(fetcher.now, fetcher.endpoint.next_deadline());
            fetcher.endpoint.on_timer(fetcher.now);
        }
        return fetcher.completion(id);
    }

    Bytes fetched() const { return {memory->bytes().begin(), memory->bytes().end()}; }

    std::size_t packet_bytes;
    wire::Name object = name("/j/g0/obj/1/model");
    ObjectHost publisher{"h1"};
    ObjectHost fetcher{"h2"};
    std::shared_ptr<ObjectMemory> memory = std::make_shared<ObjectMemory>();
    std::vector<wire::Name> asked;
    OperationId next_id = 1;
};

}  // namespace innet::testing
