#pragma once
// A reducer on a forwarder that only writes down what it is asked for.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "switch_emulator/reduction/reducer.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/security/keyring.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/text.hpp"

namespace innet::reduction::test {

inline wire::Name name_of(std::string_view uri) {
    const auto name = wire::Name::from_uri(uri);
    REQUIRE(name);
    return *name;
}

class RecordingForwarder final : public Forwarder {
  public:
    struct Asked {
        std::string name, hint;
        bool operator==(const Asked&) const = default;
    };
    struct Held {
        std::string name, missing;
        bool operator==(const Held&) const = default;
    };
    struct Nacked {
        std::string name;
        wire::NackReason reason;
        bool operator==(const Nacked&) const = default;
    };
    struct Put {
        PacketRef packet;
        bool marked;
    };
    struct SentAhead {
        std::string name, hint;
        PacketRef packet;
        bool marked;
    };

    void express(RequesterId requester, wire::NameView name, wire::NameView hint,
                 Duration) override {
        CHECK(requester == RequesterId::kReducer);
        asked.push_back({name.to_uri(), hint.to_uri()});
    }
    void cancel(RequesterId, wire::NameView name) override { cancelled.push_back(name.to_uri()); }
    void put_data(RequesterId, PacketRef data, bool marked) override {
        put.push_back({std::move(data), marked});
    }
    void offer_data(PacketRef data, wire::NameView hint, bool marked) override {
        const auto name = wire::DataView::parse(data.bytes())->name();
        ahead.push_back({name.to_uri(), hint.to_uri(), std::move(data), marked});
    }
    void hold(wire::NameView name, wire::ByteView missing) override {
        held.push_back({name.to_uri(), std::string(missing.begin(), missing.end())});
    }
    void nack(wire::NameView name, wire::NackReason reason) override {
        nacked.push_back({name.to_uri(), reason});
    }

    std::vector<Asked> asked;
    std::vector<std::string> cancelled;
    std::vector<Put> put;
    std::vector<SentAhead> ahead;
    std::vector<Held> held;
    std::vector<Nacked> nacked;
};

/// What a Data given to `put_data` says.
struct Answer {
    std::string name;
    std::vector<std::uint8_t> content;
    std::optional<std::uint64_t> elements = std::nullopt;
    std::optional<std::uint64_t> error;
    bool marked = false;
    std::optional<std::uint64_t> segments_received = std::nullopt;
    std::optional<std::uint64_t> sum_carry = std::nullopt;

    std::string text() const { return {content.begin(), content.end()}; }
    template <typename T>
    std::vector<T> as() const {
        std::vector<T> values(content.size() / sizeof(T));
        if (!values.empty()) std::memcpy(values.data(), content.data(), content.size());
        return values;
    }
};

template <typename T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
    std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

inline Rule rule_of(std::string_view interval,
                    const std::vector<std::pair<std::string, std::string>>& operands,
                    bool primary = true, const std::vector<std::string>& ahead_to = {}) {
    Rule rule;
    rule.group = name_of("/job/g0");
    rule.interval = wire::Name().append(interval);
    for (const auto& [part, node] : operands) {
        rule.operands.push_back({wire::Name().append(part), name_of("/n/" + node)});
    }
    rule.primary = primary;
    for (const std::string& node : ahead_to) {
        rule.ahead_to.push_back(node.empty() ? wire::Name() : name_of("/n/" + node));
    }
    return rule;
}

class ReducerFixture {
  public:
    static constexpr Duration kMillisecond = std::chrono::milliseconds(1);

    explicit ReducerFixture(std::uint32_t slots = 64, std::uint64_t receive_credit_bytes = 0)
        : options_{.own_name = name_of("/n/me"),
                   .slots = slots,
                   .receive_credit_bytes = receive_credit_bytes},
          reducer(options_, jobs, forwarder, pool, signer.get()) {}

    /// Name of operation 41's segment.
    static std::string operand_uri(std::string_view interval, std::uint64_t segment = 9,
                                   std::string_view kind = "sum.f32") {
        return "/job/g0/" + std::string(interval) + "/" + std::string(kind) +
               "/seq=41/seg=" + std::to_string(segment);
    }

    Admission admit(const std::string& uri, bool allow_fallback = false) {
        return reducer.admit(name_of(uri).view(), allow_fallback, now);
    }

    struct Contribution {
        std::optional<std::uint64_t> elements = std::nullopt;
        std::optional<wire::TensorErrorCode> error = std::nullopt;
        bool marked = false;
        std::size_t buffer_bytes = 0;  ///< of the buffer that it arrives in, when larger
        std::string_view earlier_calls = {};
        std::optional<std::uint64_t> segments_received = std::nullopt;
        std::optional<std::uint64_t> sum_carry = std::nullopt;
    };

    void arrive(const std::string& uri, const std::vector<std::uint8_t>& content,
                Contribution contribution) {
        const PacketRef packet = packet_of(uri, content, contribution);
        reducer.on_data(*wire::DataView::parse(packet.bytes()), packet, contribution.marked, now);
    }
    /// The contribution arrives before it was requested.
    template <typename T>
    void offer(const std::string& uri, const std::vector<T>& values) {
        const PacketRef packet = packet_of(uri, bytes_of(values), {.elements = values.size()});
        offer(packet, false);
    }
    void offer(const PacketRef& packet, bool marked) {
        const auto data = wire::DataView::parse(packet.bytes());
        if (reducer.may_use(data->name())) reducer.on_offer(*data, packet, marked, now);
    }

    PacketRef packet_of(const std::string& uri, const std::vector<std::uint8_t>& content,
                        const Contribution& contribution) {
        const wire::Name name = name_of(uri);
        wire::DataFields fields;
        fields.name = name.view();
        fields.tensor_elements = contribution.elements;
        fields.tensor_error = contribution.error;
        fields.earlier_calls = wire::bytes_of(contribution.earlier_calls);
        fields.segments_received = contribution.segments_received;
        fields.sum_carry = contribution.sum_carry;
        PacketRef packet = pool.allocate(std::max(content.size() + 256, contribution.buffer_bytes));
        const auto layout = wire::encode_data(fields, content.size(), 32, packet.writable());
        REQUIRE(layout.size > 0);
        std::copy(content.begin(), content.end(),
                  packet.writable().begin() + static_cast<std::ptrdiff_t>(layout.content_offset));
        packet.truncate(layout.size);
        REQUIRE(wire::DataView::parse(packet.bytes()));
        return packet;
    }

    template <typename T>
    void arrive(const std::string& uri, const std::vector<T>& values) {
        arrive(uri, bytes_of(values), {.elements = values.size()});
    }

    void hold(const std::string& uri, std::string_view rank) {
        reducer.on_hold(name_of(uri).view(),
                        {reinterpret_cast<const std::uint8_t*>(rank.data()), rank.size()}, now);
    }
    void nack(const std::string& uri, wire::NackReason reason) {
        reducer.on_nack(name_of(uri).view(), reason, now);
    }

    /// Lets time pass, with every timer on the way.
    void pass(Duration duration) {
        const TimePoint end = now + duration;
        while (reducer.next_deadline() <= end) {
            now = std::max(now, reducer.next_deadline());
            reducer.on_timer(now);
        }
        now = end;
    }

    /// Takes the answers given so far; each must be a correctly signed Data.
    std::vector<Answer> answers() {
        security::Keyring keyring;
        keyring.accept_digest(true);
        std::vector<Answer> taken;
        for (const auto& [packet, marked] : forwarder.put) {
            const auto data = wire::DataView::parse(packet.bytes());
            REQUIRE(data);
            CHECK(keyring.verify(*data) == security::Verdict::kValid);
            taken.push_back({data->name().to_uri(),
                             {data->content().begin(), data->content().end()},
                             data->tensor_elements(),
                             data->tensor_error(),
                             marked,
                             data->segments_received(),
                             data->sum_carry()});
        }
        forwarder.put.clear();
        return taken;
    }

    std::size_t times_asked(const std::string& uri) const {
        std::size_t times = 0;
        for (const auto& asked : forwarder.asked) times += asked.name == uri ? 1 : 0;
        return times;
    }

    void check_nothing_left() {
        forwarder.put.clear();
        forwarder.ahead.clear();
        CHECK(reducer.counters().slots_in_use == 0);
        CHECK(pool.bytes_in_use() == 0);
        CHECK(reducer.next_deadline() == kNever);
    }

    PacketPool pool;
    jobs::JobTable jobs;
    RecordingForwarder forwarder;
    std::unique_ptr<security::Signer> signer = security::make_digest_signer();

  private:
    ReducerOptions options_;

  public:
    Reducer reducer;
    TimePoint now{std::chrono::seconds(1)};
};

}  // namespace innet::reduction::test
