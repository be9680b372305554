#include "switch_emulator/driver/udp_port.hpp"

namespace innet::driver {

std::unique_ptr<UdpPort> UdpPort::open(const SocketAddress& local, bool beside_links,
                                       std::string& error) {
    auto socket = UdpSocket::listen(local, beside_links, error);
    if (!socket) return nullptr;
    const SocketAddress bound = SocketAddress::of_socket(socket->fd()).value_or(local);
    return std::unique_ptr<UdpPort>(new UdpPort(std::move(*socket), bound));
}

std::optional<FaceId> UdpPort::face_of(const SocketAddress& peer) const {
    const auto found = faces_.find(peer);
    return found == faces_.end() ? std::nullopt : std::optional(found->second);
}

void UdpPort::set_face(const SocketAddress& peer, FaceId face) { faces_[peer] = face; }

void UdpPort::forget_face(FaceId face) {
    std::erase_if(faces_, [&](const auto& peer) { return peer.second == face; });
}

std::vector<FaceId> UdpPort::faces() const {
    std::vector<FaceId> result;
    for (const auto& [peer, face] : faces_) result.push_back(face);
    return result;
}

}  // namespace innet::driver
