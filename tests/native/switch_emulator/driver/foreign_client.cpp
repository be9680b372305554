#include "foreign_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <thread>

#include "switch_emulator/driver/face_uri.hpp"
#include "switch_emulator/driver/stream_framing.hpp"
#include "transport/security/keyring.hpp"

namespace innet::testing {

namespace {

constexpr int kPatienceMs = 10'000;
constexpr std::size_t kMostBytes = 70'000;

}  // namespace

Bytes data_packet(const std::string& uri, std::size_t content_bytes) {
    const auto signer = security::make_digest_signer();
    const auto name = wire::Name::from_uri(uri).value();
    wire::DataFields fields;
    fields.name = name.view();
    fields.signature_type = signer->type();
    Bytes packet(wire::encoded_data_size(fields, content_bytes, signer->signature_size()));
    const auto layout = wire::encode_data(fields, content_bytes, signer->signature_size(), packet);
    const std::span<std::uint8_t> bytes(packet);
    REQUIRE(signer->sign(bytes.subspan(layout.signed_offset, layout.signed_size),
                         bytes.subspan(layout.signature_offset, layout.signature_size)));
    return packet;
}

ForeignClient::ForeignClient(const std::string& uri) {
    const auto to = std::get<driver::FaceUri>(driver::parse_face_uri(uri));
    is_stream_ = to.scheme != driver::FaceScheme::kUdp;
    const int type = is_stream_ ? SOCK_STREAM : SOCK_DGRAM;
    if (to.scheme == driver::FaceScheme::kUnix) {
        fd_ = driver::FileDescriptor(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, to.path.data(), to.path.size());
        REQUIRE(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        return;
    }
    fd_ = driver::FileDescriptor(::socket(to.address.family(), type | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fd_.get(), to.address.data(), to.address.size()) == 0);
}

void ForeignClient::send(const Bytes& bytes) {
    REQUIRE(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
}

bool ForeignClient::wait_readable() {
    pollfd waiting{fd_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, kPatienceMs) == 1;
}

Bytes ForeignClient::receive() {
    while (true) {
        const auto frame = driver::front_frame(unread_, kMostBytes);
        if (frame.state == driver::FrameState::kComplete) {
            const auto end = unread_.begin() + static_cast<std::ptrdiff_t>(frame.size);
            Bytes packet(unread_.begin(), end);
            unread_.erase(unread_.begin(), end);
            return packet;
        }
        REQUIRE(wait_readable());
        Bytes more(kMostBytes);
        const ssize_t count = ::recv(fd_.get(), more.data(), more.size(), 0);
        REQUIRE(count > 0);
        more.resize(static_cast<std::size_t>(count));
        unread_.insert(unread_.end(), more.begin(), more.end());
    }
}

bool ForeignClient::is_hung_up() {
    std::uint8_t byte = 0;
    return wait_readable() && ::recv(fd_.get(), &byte, 1, 0) <= 0;
}

std::string ForeignClient::receive_name(std::uint32_t type) {
    const Bytes packet = receive();
    const auto link = wire::LpView::parse(packet);
    REQUIRE(link);
    REQUIRE_FALSE(link->nack());
    REQUIRE(link->payload()[0] == type);
    if (type == wire::kInterest) {
        return wire::InterestView::parse(link->payload())->name().to_uri();
    }
    return wire::DataView::parse(link->payload())->name().to_uri();
}

bool ForeignClient::receive_nack() {
    const Bytes packet = receive();
    const auto link = wire::LpView::parse(packet);
    return link && link->nack();
}

namespace {

forwarding::NodeOptions node_options() {
    forwarding::NodeOptions options;
    options.own_name = wire::Name::from_uri("/n/s0").value();
    return options;
}

}  // namespace

ListeningNode::ListeningNode(const std::vector<driver::ListenerOptions>& listeners)
    : thread(node_options(), {}, {}, security::make_digest_signer()) {
    for (const driver::ListenerOptions& listener : listeners) {
        std::string error;
        const auto uri = thread.listen(listener, error);
        REQUIRE_MESSAGE(uri, error);
        uris.push_back(*uri);
    }
    thread.start();
}

std::vector<driver::LinkStatus> ListeningNode::links() {
    std::vector<driver::LinkStatus> result;
    thread.call([&](driver::Engine&) { result = thread.link_status(); });
    return result;
}

driver::FaceTableCounters ListeningNode::counters() {
    driver::FaceTableCounters result;
    thread.call([&](driver::Engine&) { result = thread.face_counters(); });
    return result;
}

std::size_t ListeningNode::packet_bytes_in_use() {
    std::size_t result = 0;
    thread.call([&](driver::Engine& engine) { result = engine.pool.bytes_in_use(); });
    return result;
}

void ListeningNode::await(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (!holds()) {
        REQUIRE(std::chrono::steady_clock::now() < end);
        std::this_thread::yield();
    }
}

void ListeningNode::await_faces(std::size_t count) {
    await([&] { return links().size() == count; });
}

void ListeningNode::route_to_newest(const std::string& prefix) {
    const FaceId newest = links().back().face;
    thread.call([&](driver::Engine& engine) {
        engine.node.add_route(wire::Name::from_uri(prefix).value(), newest, 0);
    });
}

SocketPath::SocketPath() {
    std::string made = "/tmp/innet-native-XXXXXX";
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    directory_ = made;
    path = directory_ + "/s.ndn";
}

SocketPath::~SocketPath() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

bool SocketPath::exists() const { return std::filesystem::exists(path); }

}  // namespace innet::testing
