#include "switch_emulator/driver/stream_listener.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <variant>

#include "switch_emulator/driver/tcp_options.hpp"

namespace innet::driver {

namespace {

constexpr int kBacklog = 128;

std::string failure(const std::string& what, const std::string& uri) {
    return what + " " + uri + ": " + std::strerror(errno);
}

FileDescriptor stream_socket(int family) {
    return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

FileDescriptor reserve_descriptor() {
    return FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool has_living_owner(const sockaddr_un& address) {
    const FileDescriptor probe = stream_socket(AF_UNIX);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    // After any other error (full backlog, no permission, no descriptor), a listener may exist.
    return ::connect(probe.get(), generic, sizeof address) == 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

bool is_socket(const std::string& path) {
    struct stat found{};
    return ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

FileDescriptor listen_on_path(const StreamListenerOptions& options, std::string& error) {
    const std::string& path = options.uri.path;
    sockaddr_un address{};
    if (path.size() >= sizeof address.sun_path) {
        error = "a Unix socket's path has at most 107 bytes: " + path;
        return {};
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    FileDescriptor fd = stream_socket(AF_UNIX);
    const auto bind = [&] {
        return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    };
    bool bound = fd && bind();
    if (fd && !bound && errno == EADDRINUSE && is_socket(path)) {
        if (!options.takes_over && has_living_owner(address)) {
            error = "another forwarder listens on " + path;
            return {};
        }
        ::unlink(path.c_str());
        bound = bind();
    }
    if (!bound || ::chmod(path.c_str(), options.permissions) != 0 ||
        ::listen(fd.get(), kBacklog) != 0) {
        error = failure("listen on", options.uri.to_string());
        return {};
    }
    return fd;
}

FileDescriptor listen_on_port(const FaceUri& uri, std::string& error) {
    const SocketAddress& address = uri.address;
    FileDescriptor fd = stream_socket(address.family());
    const int on = 1;
    if (address.is_ipv6()) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!fd || ::bind(fd.get(), address.data(), address.size()) != 0 ||
        ::listen(fd.get(), kBacklog) != 0) {
        error = failure("listen on", uri.to_string());
        return {};
    }
    return fd;
}

}  // namespace

std::unique_ptr<StreamListener> StreamListener::open(const StreamListenerOptions& options,
                                                     std::string& error) {
    const bool is_unix = options.uri.scheme == FaceScheme::kUnix;
    FileDescriptor fd =
        is_unix ? listen_on_path(options, error) : listen_on_port(options.uri, error);
    if (!fd) return nullptr;
    return std::unique_ptr<StreamListener>(new StreamListener(std::move(fd), options.uri));
}

StreamListener::StreamListener(FileDescriptor fd, FaceUri uri)
    : fd_(std::move(fd)), reserve_(reserve_descriptor()), uri_(std::move(uri)) {
    struct stat made{};
    if (uri_.scheme != FaceScheme::kUnix) {
        uri_.address = SocketAddress::of_socket(fd_.get()).value_or(uri_.address);
    } else if (::lstat(uri_.path.c_str(), &made) == 0) {
        device_ = made.st_dev;
        inode_ = made.st_ino;
    }
}

StreamListener::~StreamListener() {
    struct stat found{};
    if (uri_.scheme == FaceScheme::kUnix && ::lstat(uri_.path.c_str(), &found) == 0 &&
        found.st_dev == device_ && found.st_ino == inode_) {
        ::unlink(uri_.path.c_str());
    }
}

AcceptState StreamListener::accept(Connection& into) {
    into.fd = FileDescriptor(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!into.fd) {
        if (errno != EMFILE && errno != ENFILE) return AcceptState::kNobody;
        reserve_.reset();
        FileDescriptor(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
        reserve_ = reserve_descriptor();
        return AcceptState::kRefused;
    }
    if (uri_.scheme == FaceScheme::kUnix) {
        into.remote_uri = "fd://" + std::to_string(into.fd.get());
        into.local_uri = uri_.to_string();
        into.is_local = true;
        return AcceptState::kAccepted;
    }
    const auto remote = SocketAddress::of_peer(into.fd.get());
    const auto local = SocketAddress::of_socket(into.fd.get());
    if (!remote || !local) return AcceptState::kNobody;
    set_tcp_options(into.fd.get());
    into.remote_uri = FaceUri{FaceScheme::kTcp, *remote, {}}.to_string();
    into.local_uri = FaceUri{FaceScheme::kTcp, *local, {}}.to_string();
    into.is_local = remote->is_loopback() && local->is_loopback();
    return AcceptState::kAccepted;
}

}  // namespace innet::driver
