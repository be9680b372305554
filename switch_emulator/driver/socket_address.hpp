#pragma once
// An IP address with its port, as sockets take it and as it is written.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace innet::driver {

/// IPv4 or IPv6. Equal addresses compare equal.
class SocketAddress {
  public:
    SocketAddress() = default;

    /// `host` is numeric, without brackets. Nothing when it is neither an IPv4 nor an IPv6 address.
    static std::optional<SocketAddress> from_numbers(const std::string& host, std::uint16_t port);
    /// The socket's own address, or that of its peer; nothing when it has none.
    static std::optional<SocketAddress> of_socket(int fd);
    static std::optional<SocketAddress> of_peer(int fd);

    int family() const { return address_.generic.sa_family; }
    bool is_ipv6() const { return family() == AF_INET6; }
    std::uint16_t port() const;
    /// 127.0.0.0/8 or ::1.
    bool is_loopback() const;
    /// `192.0.2.1:6363`, `[::1]:6363`.
    std::string to_string() const;

    const sockaddr* data() const { return &address_.generic; }
    sockaddr* data() { return &address_.generic; }
    socklen_t size() const;
    /// Room for any address that `data()` may be filled with.
    static constexpr socklen_t kMaxSize = sizeof(sockaddr_in6);

    bool operator==(const SocketAddress& other) const;

    struct Hash {
        std::size_t operator()(const SocketAddress& address) const;
    };

  private:
    union {
        sockaddr_in6 ipv6;  ///< the largest, so that all of it starts as zeros
        sockaddr_in ipv4;
        sockaddr generic;
    } address_{};
};

}  // namespace innet::driver
