#include "switch_emulator/driver/listeners.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <variant>

#include "switch_emulator/driver/stream_channel.hpp"

namespace innet::driver {

namespace {

/// Connections taken before others have their turn.
constexpr int kMaxAccepts = 16;

std::string uri_of(const StreamListener* stream, const UdpPort* udp) {
    return stream != nullptr ? stream->uri().to_string()
                             : FaceUri{FaceScheme::kUdp, udp->local(), {}}.to_string();
}

}  // namespace

Listeners::Listeners(LinkTable& links, PacketPool& pool, int epoll_fd)
    : links_(links), pool_(pool), epoll_fd_(epoll_fd) {
    links_.set_on_closed([this](FaceId face) { on_face_closed(face); });
}

std::optional<std::string> Listeners::open(const ListenerOptions& options, std::string& error) {
    const auto parsed = parse_face_uri(options.uri);
    if (!std::holds_alternative<FaceUri>(parsed)) {
        error = "cannot listen on " + options.uri +
                ": write unix:///path, tcp4://address:port or udp4://address:port";
        return std::nullopt;
    }
    const FaceUri& uri = std::get<FaceUri>(parsed);
    Listener listener;
    listener.udp_idle_timeout = options.udp_idle_timeout;
    idle_check_interval_ = std::min(idle_check_interval_, options.udp_idle_timeout);
    if (uri.scheme == FaceScheme::kUdp) {
        listener.udp = UdpPort::open(uri.address, options.beside_links, error);
    } else {
        listener.stream =
            StreamListener::open({uri, options.permissions, options.takes_over}, error);
    }
    if (listener.udp == nullptr && listener.stream == nullptr) return std::nullopt;
    return add(std::move(listener), error);
}

std::optional<std::string> Listeners::add(Listener listener, std::string& error) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kTagBit | listeners_.size();
    const int fd = listener.udp != nullptr ? listener.udp->fd() : listener.stream->fd();
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
        error = std::string("epoll_ctl refused the socket: ") + std::strerror(errno);
        return std::nullopt;
    }
    listeners_.push_back(std::move(listener));
    return uri_of(listeners_.back().stream.get(), listeners_.back().udp.get());
}

void Listeners::on_readable(std::uint64_t tag, TimePoint now) {
    const Listener& listener = listeners_[tag & kIndexMask];
    if (listener.stream != nullptr) {
        accept(*listener.stream, now);
    } else {
        receive(*listener.udp, now);
    }
}

void Listeners::accept(StreamListener& listener, TimePoint now) {
    for (int i = 0; i < kMaxAccepts; ++i) {
        Connection connection;
        const AcceptState state = listener.accept(connection);
        if (state == AcceptState::kNobody) return;
        if (state == AcceptState::kRefused) {
            links_.count_refused();
            continue;
        }
        management::FaceDescription description;
        description.remote_uri = std::move(connection.remote_uri);
        description.local_uri = std::move(connection.local_uri);
        description.persistency = management::FacePersistency::kOnDemand;
        const FaceOptions options{
            .scope = connection.is_local ? FaceScope::kLocal : FaceScope::kNonLocal,
            .admitted_by_file = listener.uri().scheme == FaceScheme::kUnix};
        const LinkKind kind = foreign_kind(true, options);
        if (!links_.has_room(kind)) links_.evict_silent(kind, now);
        links_.add_foreign(
            std::make_unique<StreamChannel>(std::move(connection.fd), kMaxForeignPacketBytes),
            options, std::move(description), now);
    }
}

void Listeners::receive(UdpPort& port, TimePoint now) {
    // One batch: then the others have their turn.
    port.receive(pool_, [&](const SocketAddress& from, std::vector<PacketRef>& packets) {
        receive_from(port, from, packets, now);
    });
}

void Listeners::receive_from(UdpPort& port, const SocketAddress& from,
                             std::vector<PacketRef>& packets, TimePoint now) {
    auto face = port.face_of(from);
    if (!face) face = add_peer(port, from, management::FacePersistency::kOnDemand, now);
    if (!face) return;
    Link* link = links_.find(*face);
    if (link->paused_until > now) {
        link->dropped_paused += packets.size();
        return;
    }
    links_.deliver(*face, packets, now);
}

std::optional<FaceId> Listeners::add_peer(UdpPort& port, const SocketAddress& peer,
                                          management::FacePersistency persistency, TimePoint now) {
    management::FaceDescription description;
    description.remote_uri = FaceUri{FaceScheme::kUdp, peer, {}}.to_string();
    description.local_uri = FaceUri{FaceScheme::kUdp, port.local(), {}}.to_string();
    description.persistency = persistency;
    description.mtu = kMaxForeignPacketBytes;
    // The kernel takes no packet with such a source address from outside.
    const FaceScope scope = peer.is_loopback() ? FaceScope::kLocal : FaceScope::kNonLocal;
    const LinkKind kind = foreign_kind(false, {.scope = scope});
    if (!links_.has_room(kind)) links_.evict_udp_peer(kind, now);
    const auto face =
        links_.add_foreign(port.channel_to(peer), {.scope = scope}, std::move(description), now);
    if (!face) return std::nullopt;
    port.set_face(peer, *face);
    if (next_idle_check_ == kNever) next_idle_check_ = now + idle_check_interval_;
    return face;
}

std::optional<FaceId> Listeners::add_udp_peer(const SocketAddress& peer,
                                              management::FacePersistency persistency,
                                              TimePoint now) {
    for (const Listener& listener : listeners_) {
        if (listener.udp != nullptr && listener.udp->local().family() == peer.family()) {
            return add_peer(*listener.udp, peer, persistency, now);
        }
    }
    return std::nullopt;
}

bool Listeners::has_udp_port(int family) const {
    for (const Listener& listener : listeners_) {
        if (listener.udp != nullptr && listener.udp->local().family() == family) return true;
    }
    return false;
}

void Listeners::on_face_closed(FaceId face) {
    for (const Listener& listener : listeners_) {
        if (listener.udp != nullptr) listener.udp->forget_face(face);
    }
}

void Listeners::on_timer(TimePoint now) {
    if (next_idle_check_ > now) return;
    next_idle_check_ = kNever;
    for (const Listener& listener : listeners_) {
        if (listener.udp == nullptr) continue;
        for (const FaceId face : listener.udp->faces()) {
            const Link* link = links_.find(face);
            const bool may_go =
                link->description.persistency == management::FacePersistency::kOnDemand;
            if (may_go && now - link->last_heard >= listener.udp_idle_timeout) {
                links_.close(face, now);
            } else {
                next_idle_check_ = now + idle_check_interval_;
            }
        }
    }
}

std::vector<std::string> Listeners::uris() const {
    std::vector<std::string> result;
    for (const Listener& listener : listeners_) {
        result.push_back(uri_of(listener.stream.get(), listener.udp.get()));
    }
    return result;
}

}  // namespace innet::driver
