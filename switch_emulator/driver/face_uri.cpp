#include "switch_emulator/driver/face_uri.hpp"

#include <charconv>
#include <optional>

namespace innet::driver {

namespace {

struct Authority {
    std::string host;
    std::uint16_t port = kNdnPort;
};

std::optional<Authority> split(std::string_view text) {
    Authority result;
    std::string_view port;
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        result.host = text.substr(1, end - 1);
        port = text.substr(end + 1);
    } else {
        const std::size_t colon = text.find(':');
        result.host = text.substr(0, colon);
        port = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
    }
    if (port.empty()) return result;
    port.remove_prefix(1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
    if (error != std::errc{} || end != port.data() + port.size()) return std::nullopt;
    return result;
}

}  // namespace

std::string FaceUri::to_string() const {
    if (scheme == FaceScheme::kUnix) return "unix://" + path;
    const std::string name = scheme == FaceScheme::kTcp ? "tcp" : "udp";
    return name + (address.is_ipv6() ? "6://" : "4://") + address.to_string();
}

std::variant<FaceUri, FaceUriError> parse_face_uri(std::string_view text) {
    constexpr std::string_view kSeparator = "://";
    const std::size_t separator = text.find(kSeparator);
    if (separator == std::string_view::npos) return FaceUriError::kMalformed;
    const std::string_view scheme = text.substr(0, separator);
    const std::string_view rest = text.substr(separator + kSeparator.size());
    FaceUri uri;
    if (scheme == "unix") {
        uri.path = rest;
        if (!rest.starts_with('/')) return FaceUriError::kMalformed;
        return uri;
    }
    const bool is_tcp = scheme.starts_with("tcp");
    const std::string_view version = scheme.size() >= 3 ? scheme.substr(3) : std::string_view{"?"};
    if ((!is_tcp && !scheme.starts_with("udp")) ||
        (!version.empty() && version != "4" && version != "6")) {
        return FaceUriError::kUnknownScheme;
    }
    uri.scheme = is_tcp ? FaceScheme::kTcp : FaceScheme::kUdp;
    const auto authority = split(rest);
    const auto address =
        authority ? SocketAddress::from_numbers(authority->host, authority->port) : std::nullopt;
    if (!address) return FaceUriError::kMalformed;
    if (!version.empty() && address->is_ipv6() != (version == "6")) return FaceUriError::kMalformed;
    uri.address = *address;
    return uri;
}

}  // namespace innet::driver
