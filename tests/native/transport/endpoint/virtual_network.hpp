#pragma once
// Endpoints on a network made of one queue of events: virtual time, and loss, delay, jitter and
// duplicates drawn from one seed. Each host is the least forwarder that an endpoint can live on.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "transport/endpoint/endpoint.hpp"

namespace innet::testing {

using namespace std::chrono_literals;

inline TimePoint at(Duration since_start) { return TimePoint{} + since_start; }

inline wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }

struct PathModel {
    double loss = 0;
    double duplicates = 0;
    Duration delay = 500us;  ///< one way
    Duration jitter{0};      ///< up to this much more, so packets overtake each other
    double rate_bps = 0;     ///< towards each host; 0: unlimited
};

class VirtualNetwork;

/// An endpoint and its forwarder. Interests go to the host whose name is the hint, else to the host
/// that produces the longest prefix of the name.
class Host final : public Forwarder {
  public:
    Host(VirtualNetwork& network, const std::string& own_name, EndpointOptions options);

    Endpoint& endpoint() { return *endpoint_; }
    PacketPool& pool() { return pool_; }
    /// Makes the host deaf and dumb.
    void unplug() { plugged_ = false; }
    void plug_in() { plugged_ = true; }
    void produce_at(const std::string& prefix, const std::string& label);
    /// Every Interest that arrives gets this Nack.
    void refuse_all(std::optional<wire::NackReason> reason) { refusal_ = reason; }

    /// Interests expressed and not satisfied, cancelled or nacked.
    std::size_t pending() const { return pending_.size(); }
    std::vector<std::string> expressed_uris;  ///< with hint, in order
    std::vector<OperationCompletion> completions;
    std::function<void(const PacketRef&)> on_offer;  ///< what is sent ahead is lost
    const OperationCompletion* completion(OperationId id);

    void express(RequesterId requester, wire::NameView name, wire::NameView hint,
                 Duration lifetime) override;
    void cancel(RequesterId requester, wire::NameView name) override;
    void put_data(RequesterId maker, PacketRef data, bool marked) override;
    void offer_data(PacketRef data, wire::NameView, bool) override {
        if (on_offer) on_offer(data);
    }
    void hold(wire::NameView, wire::ByteView) override {}
    void nack(wire::NameView name, wire::NackReason reason) override;

  private:
    friend class VirtualNetwork;
    void on_interest(Host& from, const std::vector<std::uint8_t>& packet);
    void on_data(const std::vector<std::uint8_t>& packet);

    VirtualNetwork& network_;
    wire::Name own_name_;
    std::vector<wire::Name> prefixes_;
    PacketPool pool_;
    std::unique_ptr<security::Signer> signer_ = security::make_digest_signer();
    std::map<wire::Name, TimePoint> pending_;         ///< what this host asked, until when
    std::map<wire::Name, std::set<Host*>> asked_by_;  ///< who waits for what is not published
    std::optional<wire::NackReason> refusal_;
    TimePoint link_free_{};
    bool plugged_ = true;
    std::unique_ptr<Endpoint> endpoint_;
};

class VirtualNetwork {
  public:
    explicit VirtualNetwork(PathModel model, std::uint32_t seed = 1) : path(model), random_(seed) {}

    Host& add_host(const std::string& own_name, EndpointOptions options = {}) {
        hosts_.push_back(std::make_unique<Host>(*this, own_name, options));
        return *hosts_.back();
    }
    /// Until `done`, or until `limit` of virtual time has passed. True when done.
    bool run_until(const std::function<bool()>& done, Duration limit);
    void run_for(Duration time) {
        run_until([] { return false; }, time);
    }
    TimePoint now() const { return now_; }
    std::uint64_t data_delivered = 0;

    PathModel path;

  private:
    friend class Host;
    void send(Host& from, Host& to, std::size_t size, std::function<void()> arrive);
    Host* route(Host& requester, wire::NameView name, wire::NameView hint);
    double draw() { return static_cast<double>(random_()) / 4294967296.0; }
    TimePoint next_event() const;

    std::mt19937 random_;
    std::vector<std::unique_ptr<Host>> hosts_;
    std::multimap<TimePoint, std::function<void()>> events_;
    TimePoint now_{};
};

inline Host::Host(VirtualNetwork& network, const std::string& own_name, EndpointOptions options)
    : network_(network), own_name_(name(own_name)) {
    endpoint_ = std::make_unique<Endpoint>(options, own_name_, *this, pool_, *signer_);
}

inline void Host::produce_at(const std::string& prefix, const std::string& label) {
    prefixes_.push_back(name(prefix));
    endpoint_->register_producer(prefixes_.back(), label);
}

inline const OperationCompletion* Host::completion(OperationId id) {
    endpoint_->take_completions(completions);
    for (const OperationCompletion& one : completions) {
        if (one.id == id) return &one;
    }
    return nullptr;
}

inline void Host::express(RequesterId, wire::NameView name, wire::NameView hint,
                          Duration lifetime) {
    expressed_uris.push_back(name.to_uri() + " via " + hint.to_uri());
    pending_[wire::Name(name)] = network_.now() + lifetime;
    wire::InterestFields fields;
    fields.name = name;
    fields.forwarding_hint = hint;
    fields.lifetime = lifetime;
    std::vector<std::uint8_t> packet(512);
    packet.resize(wire::encode_interest(fields, packet));
    Host* to = network_.route(*this, name, hint);
    if (to == nullptr) {
        network_.events_.emplace(network_.now(), [this, uri = wire::Name(name)] {
            pending_.erase(uri);
            endpoint_->on_nack(uri.view(), wire::NackReason::kNoRoute, network_.now());
        });
        return;
    }
    network_.send(*this, *to, packet.size(),
                  [this, to, packet] { to->on_interest(*this, packet); });
}

inline void Host::cancel(RequesterId, wire::NameView name) { pending_.erase(wire::Name(name)); }

inline void Host::on_interest(Host& from, const std::vector<std::uint8_t>& packet) {
    const auto interest = wire::InterestView::parse(packet);
    const wire::Name asked(interest->name());
    const auto nack_back = [&](wire::NackReason reason) {
        network_.send(*this, from, packet.size(), [this, &from, asked, reason] {
            if (from.pending_.erase(asked) == 0) return;
            from.endpoint_->on_nack(asked.view(), reason, network_.now());
        });
    };
    if (refusal_) return nack_back(*refusal_);
    const Production production = endpoint_->produce(*interest, true, network_.now());
    switch (production.kind) {
        case Production::Kind::kNotMine:
            return nack_back(wire::NackReason::kNoRoute);
        case Production::Kind::kAbsent:
            return nack_back(wire::NackReason::kNoData);
        case Production::Kind::kPending: {
            asked_by_[asked].insert(&from);
            endpoint_->await(*interest, network_.now());
            const std::vector<std::uint8_t> label(production.missing.begin(),
                                                  production.missing.end());
            network_.send(*this, from, packet.size(), [this, &from, asked, label] {
                if (from.pending_.contains(asked)) {
                    from.endpoint_->on_hold(asked.view(), label, network_.now());
                }
            });
            return;
        }
        case Production::Kind::kData:
            asked_by_[asked].insert(&from);
            put_data(RequesterId::kApplication, production.data, false);
    }
}

inline void Host::put_data(RequesterId, PacketRef data, bool) {
    const std::vector<std::uint8_t> packet(data.bytes().begin(), data.bytes().end());
    const auto view = wire::DataView::parse(packet);
    for (Host* requester : asked_by_[wire::Name(view->name())]) {
        network_.send(*this, *requester, packet.size(),
                      [requester, packet] { requester->on_data(packet); });
    }
    asked_by_.erase(wire::Name(view->name()));
}

inline void Host::nack(wire::NameView name, wire::NackReason reason) {
    for (Host* requester : asked_by_[wire::Name(name)]) {
        network_.send(*this, *requester, 100, [this, requester, asked = wire::Name(name), reason] {
            if (requester->pending_.erase(asked) == 0) return;
            requester->endpoint_->on_nack(asked.view(), reason, network_.now());
        });
    }
    asked_by_.erase(wire::Name(name));
}

inline void Host::on_data(const std::vector<std::uint8_t>& packet) {
    const PacketRef held = pool_.copy_of(packet);
    const auto data = wire::DataView::parse(held.bytes());
    const auto asked = pending_.find(wire::Name(data->name()));
    if (asked != pending_.end() && asked->second < network_.now()) return;
    if (asked != pending_.end()) pending_.erase(asked);
    ++network_.data_delivered;
    endpoint_->on_data(*data, held, false, network_.now());
}

inline void VirtualNetwork::send(Host& from, Host& to, std::size_t size,
                                 std::function<void()> arrive) {
    const int copies = draw() < path.duplicates ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
        if (draw() < path.loss) continue;
        TimePoint arrival = now_ + path.delay;
        if (path.rate_bps > 0) {
            const Duration serialisation(
                static_cast<Duration::rep>(8e9 * static_cast<double>(size) / path.rate_bps));
            to.link_free_ = std::max(to.link_free_, now_) + serialisation;
            arrival = to.link_free_ + path.delay;
        }
        arrival +=
            Duration(static_cast<Duration::rep>(draw() * static_cast<double>(path.jitter.count())));
        events_.emplace(arrival, [&from, &to, arrive] {
            if (from.plugged_ && to.plugged_) arrive();
        });
    }
}

inline Host* VirtualNetwork::route(Host& requester, wire::NameView name, wire::NameView hint) {
    const bool by_name = hint.empty() || hint == requester.own_name_.view();
    Host* best = nullptr;
    std::size_t longest = 0;
    for (const auto& host : hosts_) {
        if (!by_name && host->own_name_.view() == hint) return host.get();
        if (!by_name) continue;
        for (const wire::Name& prefix : host->prefixes_) {
            const std::size_t length = prefix.view().value().size();
            if (length <= longest || !prefix.view().is_prefix_of(name)) continue;
            best = host.get();
            longest = length;
        }
    }
    return best;
}

inline TimePoint VirtualNetwork::next_event() const {
    TimePoint next = events_.empty() ? kNever : events_.begin()->first;
    for (const auto& host : hosts_) next = std::min(next, host->endpoint_->next_deadline());
    return next;
}

inline bool VirtualNetwork::run_until(const std::function<bool()>& done, Duration limit) {
    const TimePoint end = now_ + limit;
    while (!done()) {
        const TimePoint next = next_event();
        if (next > end) {
            now_ = end;
            return done();
        }
        now_ = std::max(now_, next);
        while (!events_.empty() && events_.begin()->first <= now_) {
            const auto arrive = std::move(events_.begin()->second);
            events_.erase(events_.begin());
            arrive();
        }
        for (const auto& host : hosts_) {
            if (host->endpoint_->next_deadline() <= now_) host->endpoint_->on_timer(now_);
        }
    }
    return true;
}

}  // namespace innet::testing
