// Somebody looks on: he sees what crosses the links that he named, and never holds a node up.

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>

#include "switch_emulator/driver/packet_tap.hpp"

using namespace innet;
using driver::PacketTap;
using driver::TapRecord;

namespace {

/// Who looks on: a listening socket, and then the connection that the tap has made.
class Looker {
  public:
    Looker() : path_(std::filesystem::temp_directory_path() / ("tap-" + std::to_string(getpid()))) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, path_.size());
        ::unlink(path_.c_str());
        REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address),
                       sizeof address) == 0);
        REQUIRE(::listen(listener_.get(), 1) == 0);
    }
    ~Looker() { ::unlink(path_.c_str()); }

    const std::string& path() const { return path_; }
    void accept() {
        connection_ = driver::FileDescriptor(::accept(listener_.get(), nullptr, nullptr));
    }
    void hang_up() { connection_ = driver::FileDescriptor(); }
    /// A message, or an empty one when there is none.
    std::string next(TapRecord& record) {
        std::array<char, 65536> buffer{};
        const auto size = ::recv(connection_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (size < static_cast<ssize_t>(sizeof record)) return {};
        std::memcpy(&record, buffer.data(), sizeof record);
        return {buffer.data() + sizeof record, static_cast<std::size_t>(size) - sizeof record};
    }

  private:
    std::string path_;
    driver::FileDescriptor listener_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    driver::FileDescriptor connection_;
};

PacketRef packet_of(PacketPool& pool, std::string_view text) {
    return pool.copy_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

PacketTap tap_to(Looker& looker, std::vector<FaceId> faces) {
    std::string error;
    auto tap = PacketTap::connect(looker.path(), std::move(faces), error);
    REQUIRE_MESSAGE(tap, error);
    looker.accept();
    return std::move(*tap);
}

}  // namespace

TEST_CASE("a tap sees both directions of the faces it selects") {
    PacketPool pool;
    Looker looker;
    PacketTap tap = tap_to(looker, {1, 3});
    const std::array<PacketRef, 2> received = {packet_of(pool, "one"), packet_of(pool, "two")};
    tap.on_received(1, received);
    tap.on_received(2, received);
    OutgoingPacket sent;
    sent.payload = packet_of(pool, "payload");
    sent.header[0] = 'h';
    sent.header_size = 1;
    tap.on_sent(3, {&sent, 1});
    TapRecord record;
    CHECK(looker.next(record) == "one");
    CHECK((record.face == 1 && record.sent == 0 && record.lost == 0 && record.time_ns > 0));
    CHECK(looker.next(record) == "two");
    CHECK(looker.next(record) == "hpayload");
    CHECK((record.face == 3 && record.sent == 1));
    CHECK(looker.next(record).empty());
}

TEST_CASE("a slow tap counts the packets it drops and stays open") {
    PacketPool pool;
    Looker looker;
    PacketTap tap = tap_to(looker, {0});
    const std::array<PacketRef, 1> large = {packet_of(pool, std::string(30'000, 'x'))};
    for (int i = 0; i < 5000; ++i) tap.on_received(0, large);
    CHECK_FALSE(tap.closed());
    TapRecord record;
    int seen = 0;
    while (!looker.next(record).empty()) ++seen;
    CHECK(seen < 5000);
    tap.on_received(0, large);
    CHECK_FALSE(looker.next(record).empty());
    CHECK(record.lost == static_cast<std::uint64_t>(5000 - seen));
}

TEST_CASE("a tap ends when its reader closes it") {
    PacketPool pool;
    Looker looker;
    PacketTap tap = tap_to(looker, {0});
    looker.hang_up();
    const std::array<PacketRef, 1> packet = {packet_of(pool, "x")};
    tap.on_received(0, packet);
    CHECK(tap.closed());
}

TEST_CASE("without a listener there is no tap") {
    std::string error;
    CHECK_FALSE(PacketTap::connect("/nowhere/tap", {0}, error));
    CHECK(error.find("/nowhere/tap") != std::string::npos);
    CHECK_FALSE(PacketTap::connect(std::string(200, 'x'), {0}, error));
}
