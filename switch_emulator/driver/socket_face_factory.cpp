#include "switch_emulator/driver/socket_face_factory.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "switch_emulator/driver/stream_channel.hpp"
#include "switch_emulator/driver/tcp_options.hpp"

namespace innet::driver {

namespace {

using management::FaceCreation;
using management::FaceFailure;
using management::FacePersistency;

constexpr Duration kConnectTimeout = std::chrono::seconds(4);
/// Connections under way at once: each has a descriptor.
constexpr std::size_t kMaxConnecting = 64;

FaceFailure failure(std::uint32_t code, std::string text, FaceId existing = kNoFace) {
    return {code, std::move(text), existing};
}

}  // namespace

SocketFaceFactory::SocketFaceFactory(LinkTable& links, Listeners& listeners, int epoll_fd)
    : links_(links), listeners_(listeners), epoll_fd_(epoll_fd) {}

void SocketFaceFactory::create(const management::FaceRequest& request, Done done) {
    requested_.push_back({request, std::move(done)});
}

bool SocketFaceFactory::destroy(FaceId face) {
    const Link* link = links_.find(face);
    if (link == nullptr || !link->foreign()) return false;
    destroyed_.push_back(link->number);
    return true;
}

bool SocketFaceFactory::set_persistency(FaceId face, FacePersistency persistency) {
    Link* link = links_.find(face);
    if (link == nullptr || !link->foreign()) return false;
    const bool is_udp = link->description.remote_uri.starts_with("udp");
    const bool is_tcp = link->description.remote_uri.starts_with("tcp");
    // A program that connected here cannot be called back over its Unix socket, nor is a TCP
    // connection that broke made again.
    const bool possible = persistency == FacePersistency::kPersistent  ? is_udp || is_tcp
                          : persistency == FacePersistency::kPermanent ? is_udp
                                                                       : true;
    if (possible) link->description.persistency = persistency;
    return possible;
}

std::optional<management::FaceDescription> SocketFaceFactory::describe(FaceId face) const {
    const Link* link = links_.find(face);
    if (link == nullptr) return std::nullopt;
    management::FaceDescription description = link->description;
    if (link->foreign()) description.marking = link->marker.options();
    return description;
}

bool SocketFaceFactory::set_congestion_marking(FaceId face,
                                               const port::CongestionMarkerOptions& options) {
    Link* link = links_.find(face);
    if (link == nullptr || !link->foreign()) return false;
    link->marker.change(options);
    return true;
}

void SocketFaceFactory::run_pending(TimePoint now) {
    for (const FaceNumber number : std::exchange(destroyed_, {})) {
        const auto face =
            links_.find_foreign([&](const Link& link) { return link.number == number; });
        if (face) links_.close(*face, now);
    }
    for (PendingCreation& creation : std::exchange(requested_, {})) make(creation, now);
    for (std::size_t i = 0; i < connecting_.size();) {
        if (connecting_[i].deadline > now) {
            ++i;
            continue;
        }
        const Connecting late = std::move(connecting_[i]);
        connecting_.erase(connecting_.begin() + static_cast<std::ptrdiff_t>(i));
        late.done(failure(408, "no connection to " + late.remote.to_string() + " in time"));
    }
}

TimePoint SocketFaceFactory::next_deadline() const {
    if (!requested_.empty() || !destroyed_.empty()) return TimePoint{};
    TimePoint deadline = kNever;
    for (const Connecting& connecting : connecting_) {
        deadline = std::min(deadline, connecting.deadline);
    }
    return deadline;
}

void SocketFaceFactory::make(PendingCreation& creation, TimePoint now) {
    const auto parsed = parse_face_uri(creation.request.remote_uri);
    if (const auto* error = std::get_if<FaceUriError>(&parsed)) {
        const bool unknown = *error == FaceUriError::kUnknownScheme;
        return creation.done(unknown ? failure(501, "Unsupported protocol")
                                     : failure(400, "Remote URI is not canonical"));
    }
    const FaceUri& remote = std::get<FaceUri>(parsed);
    const FacePersistency persistency = creation.request.persistency;
    if (remote.scheme == FaceScheme::kUnix) {
        return creation.done(failure(406, "connecting clients create Unix faces"));
    }
    if (persistency == FacePersistency::kOnDemand ||
        (persistency == FacePersistency::kPermanent && remote.scheme == FaceScheme::kTcp)) {
        return creation.done(failure(406, "Requested persistency is not supported"));
    }
    if (const auto existing = face_to(remote.to_string())) {
        return creation.done(failure(409, "Face with remote URI already exists", *existing));
    }
    if (remote.scheme == FaceScheme::kTcp) return start_connecting(remote, creation, now);
    creation.done(make_udp(remote, persistency, now));
}

std::optional<FaceId> SocketFaceFactory::face_to(const std::string& remote_uri) const {
    return links_.find_foreign(
        [&](const Link& link) { return link.description.remote_uri == remote_uri; });
}

FaceCreation SocketFaceFactory::make_udp(const FaceUri& remote, FacePersistency persistency,
                                         TimePoint now) {
    if (listeners_.has_udp_port(remote.address.family())) {
        const auto face = listeners_.add_udp_peer(remote.address, persistency, now);
        if (face) return *face;
        return failure(504, "too many faces");
    }
    std::string error;
    auto port = UdpSocket::connect(remote.address, error);
    if (!port) return failure(504, error);
    management::FaceDescription description;
    const auto local = SocketAddress::of_socket(port->fd());
    description.remote_uri = remote.to_string();
    if (local) description.local_uri = FaceUri{FaceScheme::kUdp, *local, {}}.to_string();
    description.persistency = persistency;
    description.mtu = kMaxForeignPacketBytes;
    const FaceScope scope = remote.address.is_loopback() ? FaceScope::kLocal : FaceScope::kNonLocal;
    const auto face = links_.add_foreign(std::make_unique<UdpSocket>(std::move(*port)),
                                         {.scope = scope}, std::move(description), now);
    if (face) return *face;
    return failure(504, "too many faces");
}

void SocketFaceFactory::start_connecting(const FaceUri& remote, PendingCreation& creation,
                                         TimePoint now) {
    if (!links_.has_room(remote.address.is_loopback() ? LinkKind::kLocalTcp : LinkKind::kRemote)) {
        links_.count_refused();
        return creation.done(failure(504, "too many faces"));
    }
    FileDescriptor fd(
        ::socket(remote.address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd || connecting_.size() >= kMaxConnecting) {
        return creation.done(failure(504, "too many connections are under way"));
    }
    const bool refused = ::connect(fd.get(), remote.address.data(), remote.address.size()) != 0 &&
                         errno != EINPROGRESS;
    epoll_event event{};
    event.events = EPOLLOUT;
    event.data.u64 = kTagBit | next_number_;
    if (refused || ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd.get(), &event) != 0) {
        return creation.done(
            failure(504, "connect " + remote.to_string() + ": " + std::strerror(errno)));
    }
    connecting_.push_back({next_number_, std::move(fd), remote, creation.request.persistency,
                           std::move(creation.done), now + kConnectTimeout});
    ++next_number_;
}

void SocketFaceFactory::on_event(std::uint64_t tag, TimePoint now) {
    const auto found = std::ranges::find(connecting_, static_cast<std::uint32_t>(tag & kNumberMask),
                                         &Connecting::number);
    if (found == connecting_.end()) return;
    Connecting connecting = std::move(*found);
    connecting_.erase(found);
    const Done done = std::move(connecting.done);
    done(finish_connecting(connecting, now));
}

FaceCreation SocketFaceFactory::finish_connecting(Connecting& connecting, TimePoint now) {
    const std::string remote_uri = connecting.remote.to_string();
    const int fd = connecting.fd.get();
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return failure(504, "connect " + remote_uri + ": " + std::strerror(error));
    set_tcp_options(fd);
    management::FaceDescription description;
    const auto local = SocketAddress::of_socket(fd);
    description.remote_uri = remote_uri;
    if (local) description.local_uri = FaceUri{FaceScheme::kTcp, *local, {}}.to_string();
    description.persistency = connecting.persistency;
    const bool is_local = connecting.remote.address.is_loopback() && local && local->is_loopback();
    const auto face = links_.add_foreign(
        std::make_unique<StreamChannel>(std::move(connecting.fd), kMaxForeignPacketBytes),
        {.scope = is_local ? FaceScope::kLocal : FaceScope::kNonLocal}, std::move(description),
        now);
    if (face) return *face;
    return failure(504, "too many faces");
}

}  // namespace innet::driver
