#include "switch_emulator/driver/socket_address.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstring>

namespace innet::driver {

std::optional<SocketAddress> SocketAddress::from_numbers(const std::string& host,
                                                         std::uint16_t port) {
    SocketAddress result;
    if (inet_pton(AF_INET, host.c_str(), &result.address_.ipv4.sin_addr) == 1) {
        result.address_.ipv4.sin_family = AF_INET;
        result.address_.ipv4.sin_port = htons(port);
        return result;
    }
    result = {};
    if (inet_pton(AF_INET6, host.c_str(), &result.address_.ipv6.sin6_addr) == 1) {
        result.address_.ipv6.sin6_family = AF_INET6;
        result.address_.ipv6.sin6_port = htons(port);
        return result;
    }
    return std::nullopt;
}

std::optional<SocketAddress> SocketAddress::of_socket(int fd) {
    SocketAddress result;
    socklen_t size = kMaxSize;
    if (::getsockname(fd, result.data(), &size) != 0) return std::nullopt;
    return result;
}

std::optional<SocketAddress> SocketAddress::of_peer(int fd) {
    SocketAddress result;
    socklen_t size = kMaxSize;
    if (::getpeername(fd, result.data(), &size) != 0) return std::nullopt;
    return result;
}

std::uint16_t SocketAddress::port() const {
    return ntohs(is_ipv6() ? address_.ipv6.sin6_port : address_.ipv4.sin_port);
}

bool SocketAddress::is_loopback() const {
    if (is_ipv6()) return IN6_IS_ADDR_LOOPBACK(&address_.ipv6.sin6_addr);
    return family() == AF_INET && ntohl(address_.ipv4.sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
}

std::string SocketAddress::to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (is_ipv6()) {
        inet_ntop(AF_INET6, &address_.ipv6.sin6_addr, text.data(), text.size());
        return std::string("[").append(text.data()).append("]:").append(std::to_string(port()));
    }
    inet_ntop(AF_INET, &address_.ipv4.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(port());
}

socklen_t SocketAddress::size() const {
    return is_ipv6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

bool SocketAddress::operator==(const SocketAddress& other) const {
    if (family() != other.family() || port() != other.port()) return false;
    if (!is_ipv6()) return address_.ipv4.sin_addr.s_addr == other.address_.ipv4.sin_addr.s_addr;
    return std::memcmp(&address_.ipv6.sin6_addr, &other.address_.ipv6.sin6_addr,
                       sizeof(in6_addr)) == 0 &&
           address_.ipv6.sin6_scope_id == other.address_.ipv6.sin6_scope_id;
}

std::size_t SocketAddress::Hash::operator()(const SocketAddress& address) const {
    std::uint64_t words[2]{};
    if (address.is_ipv6()) {
        std::memcpy(words, &address.address_.ipv6.sin6_addr, sizeof words);
    } else {
        words[0] = address.address_.ipv4.sin_addr.s_addr;
    }
    std::uint64_t hash = words[0] * 0x9e3779b97f4a7c15U ^ words[1];
    hash = (hash ^ address.port()) * 0x9e3779b97f4a7c15U;
    return static_cast<std::size_t>(hash ^ (hash >> 32U));
}

}  // namespace innet::driver
