#include <doctest/doctest.h>

#include "switch_emulator/driver/face_uri.hpp"

using namespace innet;
using namespace innet::driver;

namespace {

std::string canonical(std::string_view text) {
    const auto parsed = parse_face_uri(text);
    if (const auto* uri = std::get_if<FaceUri>(&parsed)) return uri->to_string();
    return std::get<FaceUriError>(parsed) == FaceUriError::kMalformed ? "malformed" : "unknown";
}

}  // namespace

TEST_CASE("face URIs are parsed as NFD's clients write them, and written in NFD's canonical form") {
    CHECK(canonical("udp4://192.0.2.1:6363") == "udp4://192.0.2.1:6363");
    CHECK(canonical("udp://192.0.2.1") == "udp4://192.0.2.1:6363");
    CHECK(canonical("tcp6://[::1]:7000") == "tcp6://[::1]:7000");
    CHECK(canonical("tcp://[2001:db8:0::1]") == "tcp6://[2001:db8::1]:6363");
    CHECK(canonical("unix:///run/nfd/nfd.sock") == "unix:///run/nfd/nfd.sock");
}

TEST_CASE("a malformed face URI is refused differently from an unknown scheme") {
    for (const char* uri : {"", "udp4", "udp4://", "udp4://host.example:6363", "udp4://192.0.2.1:x",
                            "udp4://192.0.2.1:65536", "udp4://[::1]:1", "tcp6://192.0.2.1:1",
                            "unix://relative", "tcp6://[::1"}) {
        CHECK_MESSAGE(canonical(uri) == "malformed", uri);
    }
    for (const char* uri : {"ether://[01:00:5e:00:17:aa]", "ws://x", "udp5://192.0.2.1:1"}) {
        CHECK_MESSAGE(canonical(uri) == "unknown", uri);
    }
}

TEST_CASE("loopback is distinguished from other addresses") {
    CHECK(SocketAddress::from_numbers("127.1.2.3", 1)->is_loopback());
    CHECK(SocketAddress::from_numbers("::1", 1)->is_loopback());
    CHECK_FALSE(SocketAddress::from_numbers("192.0.2.1", 1)->is_loopback());
    CHECK_FALSE(SocketAddress::from_numbers("::2", 1)->is_loopback());
}
