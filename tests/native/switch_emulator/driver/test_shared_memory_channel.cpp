// Links through memory that two ends share.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "switch_emulator/driver/shared_memory_channel.hpp"

using namespace innet;
using namespace innet::driver;

namespace {

constexpr std::size_t kBytes = LinkMemory::kHeaderBytes + LinkMemory::kEnds * RingMemory::kMinBytes;

/// What a launcher keeps of a link.
struct Kept {
    explicit Kept(std::size_t size = kBytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
        : memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
          events{FileDescriptor(::eventfd(0, EFD_NONBLOCK)),
                 FileDescriptor(::eventfd(0, EFD_NONBLOCK))} {
        REQUIRE(::ftruncate(memory.get(), static_cast<off_t>(size)) == 0);
        REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, seals) == 0);
    }
    std::unique_ptr<SharedMemoryChannel> open(unsigned end) {
        auto channel = try_open(end);
        REQUIRE_MESSAGE(channel != nullptr, error);
        return channel;
    }
    std::unique_ptr<SharedMemoryChannel> try_open(unsigned end) {
        return SharedMemoryChannel::open({end, ::dup(memory.get()), ::dup(events[end % 2].get()),
                                          ::dup(events[(end + 1) % 2].get())},
                                         error);
    }

    FileDescriptor memory;
    std::array<FileDescriptor, 2> events;
    std::string error;
};

/// A node's side of a link.
struct End {
    explicit End(std::unique_ptr<SharedMemoryChannel> opened) : channel(std::move(opened)) {}

    OutgoingPacket packet(std::uint64_t number, std::size_t size) {
        OutgoingPacket result;
        result.header_size = 4;
        result.header.fill(0xaa);
        result.payload = pool.allocate(size - result.header_size);
        std::ranges::fill(result.payload.writable(), static_cast<std::uint8_t>(number));
        return result;
    }
    std::size_t send(std::uint64_t number, std::size_t size, std::size_t count = 1) {
        return channel->send(std::vector<OutgoingPacket>(count, packet(number, size)));
    }
    std::vector<PacketRef> receive() {
        std::vector<PacketRef> packets;
        while (channel->receive(pool, packets)) {
        }
        return packets;
    }
    bool told() const {
        pollfd event{channel->fd(), POLLIN, 0};
        return ::poll(&event, 1, 0) == 1;
    }
    /// Waits as a node's thread does, and receives.
    std::vector<PacketRef> await() {
        while (true) {
            auto packets = receive();
            if (!packets.empty()) return packets;
            if (!channel->rest()) continue;
            pollfd event{channel->fd(), POLLIN, 0};
            REQUIRE(::poll(&event, 1, 60'000) == 1);
        }
    }

    PacketPool pool;
    std::unique_ptr<SharedMemoryChannel> channel;
};

struct Wire {
    Kept kept;
    End left{kept.open(0)};
    End right{kept.open(1)};
};

}  // namespace

TEST_CASE("packets cross in both directions without notifying an awake peer") {
    Wire wire;
    for (const std::size_t size : {5UL, 100UL, 9000UL, kMaxPacketBytes}) {
        REQUIRE(wire.left.send(size, size, 3) == 3);
        const auto packets = wire.right.receive();
        REQUIRE(packets.size() == 3);
        CHECK(packets[2].size() == size);
        CHECK(packets[2].bytes()[3] == 0xaa);
        CHECK(packets[2].bytes()[4] == static_cast<std::uint8_t>(size));
        REQUIRE(wire.right.send(size, size) == 1);
        CHECK(wire.left.receive().size() == 1);
    }
    CHECK(wire.left.channel->counters().send_calls == 0);
    CHECK(wire.left.channel->counters().messages_sent == 12);
    CHECK_FALSE(wire.right.told());
}

TEST_CASE("a packet in parts arrives complete, and its borrowed bytes are read once") {
    Wire wire;
    const auto lender = std::make_shared<std::vector<std::uint8_t>>(5000, 7);
    std::vector<OutgoingPacket> packets{wire.left.packet(9, 6000)};
    packets[0].payload.lend(100, *lender, lender);
    REQUIRE(wire.left.channel->send(packets) == 1);
    packets.clear();
    CHECK(lender.use_count() == 1);
    const auto received = wire.right.receive();
    REQUIRE(received.size() == 1);
    const auto bytes = received[0].bytes();
    REQUIRE(bytes.size() == 6000);
    CHECK(bytes[3] == 0xaa);
    CHECK(bytes[103] == 9);
    CHECK(std::ranges::all_of(bytes.subspan(104, 5000), [](std::uint8_t b) { return b == 7; }));
    CHECK(bytes[5104] == 9);
}

/// What both ends see of the ring to end 1, whatever the ends themselves know.
class RingView {
  public:
    explicit RingView(const FileDescriptor& memory)
        : mapped_(::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, memory.get(), 0)) {
        REQUIRE(mapped_ != MAP_FAILED);
    }
    ~RingView() { ::munmap(mapped_, kBytes); }
    RingView(const RingView&) = delete;
    RingView& operator=(const RingView&) = delete;
    const RingControl& control() const { return *static_cast<const RingControl*>(mapped_); }

  private:
    void* mapped_;
};

TEST_CASE("a sleeping consumer is notified of many bytes before all are there") {
    constexpr std::size_t kPackets = 4;
    Wire wire;
    const RingView ring(wire.kept.memory);
    bool early = false;
    for (int tries = 0; tries < 10'000 && !early; ++tries) {
        REQUIRE(wire.right.channel->rest());
        std::uint32_t written_at_notice = 0;
        std::thread watching([&] {
            while (ring.control().consumer_sleeps.load() != 0) {
            }
            written_at_notice = ring.control().written.load();
        });
        REQUIRE(wire.left.send(1, 45'000, kPackets) == kPackets);
        watching.join();
        early = written_at_notice != ring.control().written.load();
        CHECK(wire.right.told());
        CHECK(wire.right.receive().size() == kPackets);
    }
    CHECK(early);
}

TEST_CASE("a sleeping consumer is notified of packets by one call for all") {
    Wire wire;
    REQUIRE(wire.right.channel->rest());
    REQUIRE(wire.left.send(1, 100, 20) == 20);
    REQUIRE(wire.left.send(1, 100, 20) == 20);
    CHECK(wire.left.channel->counters().send_calls == 1);
    CHECK(wire.right.told());
    CHECK(wire.right.receive().size() == 40);
    CHECK_FALSE(wire.right.told());
}

TEST_CASE("a sender that filled the ring is notified of room, also by a restarted neighbour") {
    Wire wire;
    REQUIRE(wire.left.channel->rest());
    const std::size_t taken = wire.left.send(1, 9000, 100);
    REQUIRE(taken < 100);
    CHECK(wire.left.send(1, 9000) == 0);
    CHECK_FALSE(wire.left.told());
    SUBCASE("by the neighbour") {}
    SUBCASE("by another process in its place") { wire.right.channel = wire.kept.open(1); }
    CHECK(wire.right.receive().size() == taken);
    CHECK(wire.left.told());
    wire.left.receive();
    CHECK(wire.left.send(1, 9000) == 1);
}

TEST_CASE("a waiting sender is notified of room also after unreadable contents") {
    Wire wire;
    REQUIRE(wire.left.channel->rest());
    REQUIRE(wire.left.send(1, 9000, 100) < 100);
    const std::uint32_t length = 0;
    REQUIRE(::pwrite(wire.kept.memory.get(), &length, sizeof length, LinkMemory::kHeaderBytes) ==
            sizeof length);
    CHECK(wire.right.receive().empty());
    CHECK(wire.left.told());
    wire.left.receive();
    CHECK(wire.left.send(1, 9000) == 1);
}

TEST_CASE("taking over a link's end closes the earlier channel") {
    Wire wire;
    End later(wire.kept.open(0));
    CHECK(wire.left.send(1, 100) == 0);
    CHECK(wire.left.channel->end() == ChannelEnd::kHungUp);
    CHECK(wire.left.channel->rest());
    REQUIRE(later.send(2, 100) == 1);
    CHECK(wire.right.receive().size() == 1);
    REQUIRE(wire.right.send(3, 100) == 1);
    CHECK(wire.left.receive().empty());
    CHECK(later.receive().size() == 1);
}

TEST_CASE("memory that could be taken away, or is of another size, is refused") {
    for (const std::size_t size :
         {std::size_t{0}, LinkMemory::kHeaderBytes, kBytes - 1, kBytes + 4096, kBytes / 2}) {
        CHECK(Kept(size).try_open(0) == nullptr);
    }
    CHECK(Kept(kBytes, 0).try_open(0) == nullptr);
    CHECK(Kept(kBytes, F_SEAL_GROW | F_SEAL_SEAL).try_open(0) == nullptr);
    CHECK(Kept().try_open(2) == nullptr);
    CHECK(Kept().try_open(1) != nullptr);
    std::string error;
    CHECK(SharedMemoryChannel::open({0, ::eventfd(0, 0), -1, -1}, error) == nullptr);
    CHECK_FALSE(error.empty());
}

TEST_CASE("no wake-up is lost between two threads that wait for each other") {
    constexpr std::uint64_t kRounds = 30'000;
    Wire wire;
    std::thread answering([&] {
        for (std::uint64_t answered = 0; answered < kRounds;) {
            const auto packets = wire.right.await();
            answered += packets.size();
            wire.right.send(answered, 60, packets.size());
        }
    });
    std::uint64_t answers = 0;
    for (std::uint64_t asked = 0; answers < kRounds;) {
        const std::uint64_t burst = std::min<std::uint64_t>(1 + asked % 3, kRounds - asked);
        asked += wire.left.send(asked, 70, burst);
        while (answers < asked) answers += wire.left.await().size();
    }
    answering.join();
    CHECK(answers == kRounds);
}
