#pragma once
// FaceUri, as NDN writes where a face leads: `udp4://192.0.2.1:6363`, `tcp6://[::1]:6363`,
// `unix:///run/nfd/nfd.sock` (NFD's FaceMgmt, "Face URI").

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "switch_emulator/driver/socket_address.hpp"

namespace innet::driver {

enum class FaceScheme : std::uint8_t { kUnix, kTcp, kUdp };

/// Port of NDN over TCP and UDP.
inline constexpr std::uint16_t kNdnPort = 6363;

struct FaceUri {
    FaceScheme scheme = FaceScheme::kUnix;
    SocketAddress address;  ///< of kTcp and kUdp
    std::string path;       ///< of kUnix, absolute

    /// In NFD's canonical form.
    std::string to_string() const;
};

enum class FaceUriError : std::uint8_t {
    kMalformed,      ///< no URI, no number where one must be, or names of hosts
    kUnknownScheme,  ///< none of unix, tcp, tcp4, tcp6, udp, udp4, udp6
};

/// Hosts are numeric: the client resolves names. The default port is 6363.
std::variant<FaceUri, FaceUriError> parse_face_uri(std::string_view text);

}  // namespace innet::driver
