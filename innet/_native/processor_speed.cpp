// How long the work that allreduces consist of takes on this processor, for estimates of plans.

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/reduction/formats/dense/kernels.hpp"
#include "transport/wire/interest.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

constexpr int kRounds = 5;
constexpr std::size_t kSegments = 128;
constexpr std::size_t kArrayBytes = 64 << 10;
constexpr std::size_t kDatagrams = 32;
constexpr std::size_t kDatagramBytes = 8192;
constexpr std::size_t kWakeUps = 16;

/// Seconds that this thread, or process, had a processor: what else runs does not count.
double processor_s(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The shortest of some rounds: interrupts and cold caches only add to it.
template <typename Work>
double shortest_s(const Work& work) {
    double best_s = work();
    for (int round = 1; round < kRounds; ++round) best_s = std::min(best_s, work());
    return best_s;
}

/// A node between a requester and a producer, and the packets of some segments.
class Forwarding {
  public:
    Forwarding() {
        const wire::Name hint = *wire::Name::from_uri("/n/h0");
        for (std::size_t segment = 0; segment < kSegments; ++segment) {
            wire::Name name = *wire::Name::from_uri("/job1/g0/0-7/sum.f32/seq=41");
            name.append_number(wire::kSegmentComponent, segment);
            wire::InterestFields interest;
            interest.name = name.view();
            interest.forwarding_hint = hint.view();
            interest.nonce = static_cast<std::uint32_t>(segment);
            interest.lifetime = std::chrono::seconds(1);
            interests_.push_back(pool_.allocate(256));
            interests_.back().truncate(
                wire::encode_interest(interest, interests_.back().writable()));
            wire::DataFields data;
            data.name = name.view();
            data.signature_type = signer_->type();
            data.key_name = signer_->key_name();
            data_.push_back(pool_.allocate(256));
            data_.back().truncate(
                wire::encode_data(data, 0, signer_->signature_size(), data_.back().writable())
                    .size);
        }
    }

    /// Seconds for one Interest and its Data.
    double segment_s() {
        forwarding::NodeOptions options;
        options.own_name = *wire::Name::from_uri("/n/s0");
        forwarding::Node node(options, pool_, keyring_, nullptr);
        const FaceId requester = node.add_face();
        const FaceId producer = node.add_face();
        node.add_route(*wire::Name::from_uri("/n/h0"), producer, 1);
        const TimePoint now{std::chrono::seconds(1)};
        const double start_s = processor_s();
        for (const PacketRef& packet : interests_) node.on_packet(requester, packet, now);
        for (const PacketRef& packet : data_) node.on_packet(producer, packet, now);
        return (processor_s() - start_s) / static_cast<double>(kSegments);
    }

  private:
    PacketPool pool_;
    security::Keyring keyring_;
    std::unique_ptr<security::Signer> signer_ = security::make_null_signer();
    std::vector<PacketRef> interests_;
    std::vector<PacketRef> data_;
};

double copied_byte_s() {
    const std::vector<std::uint8_t> from(kArrayBytes, 1);
    std::vector<std::uint8_t> into(kArrayBytes);
    return shortest_s([&] {
        const double start_s = processor_s();
        for (std::size_t times = 0; times < 4; ++times) {
            std::memcpy(into.data(), from.data(), kArrayBytes);
            asm volatile("" : : "r"(into.data()) : "memory");  // the copy is used
        }
        return (processor_s() - start_s) / (4.0 * kArrayBytes);
    });
}

double added_byte_s() {
    const std::vector<std::uint8_t> ones(kArrayBytes);
    const std::array<wire::ByteView, 4> operands{ones, ones, ones, ones};
    std::vector<std::uint8_t> sum(kArrayBytes);
    return shortest_s([&] {
        const double start_s = processor_s();
        reduction::reduce(reduction::Op::kSum, reduction::DType::kF32, operands, sum);
        return (processor_s() - start_s) / static_cast<double>(operands.size() * kArrayBytes);
    });
}

[[noreturn]] void throw_system_error(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

/// Two file descriptors, closed at the end.
struct Descriptors {
    std::array<int, 2> fds{-1, -1};

    Descriptors() = default;
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;
    ~Descriptors() {
        for (const int fd : fds) {
            if (fd >= 0) close(fd);
        }
    }
};

/// Seconds for sending a datagram of that size to a socket of the machine, and receiving it.
double datagram_s(std::size_t bytes) {
    Descriptors sockets;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets.fds.data()) != 0) {
        throw_system_error("a pair of sockets for measuring the processor");
    }
    std::vector<std::uint8_t> datagram(bytes);
    return shortest_s([&] {
        const double start_s = processor_s();
        for (std::size_t i = 0; i < kDatagrams; ++i) {
            if (send(sockets.fds[0], datagram.data(), bytes, 0) < 0 ||
                recv(sockets.fds[1], datagram.data(), bytes, 0) < 0) {
                throw_system_error("a datagram for measuring the processor");
            }
        }
        return (processor_s() - start_s) / static_cast<double>(kDatagrams);
    });
}

/// Of an eventfd, which has no other errors than an interruption.
void wake(int fd) {
    constexpr std::uint64_t kOnce = 1;
    while (write(fd, &kOnce, sizeof kOnce) < 0 && errno == EINTR) {
    }
}

void sleep_until_woken(int fd) {
    std::uint64_t times = 0;
    while (read(fd, &times, sizeof times) < 0 && errno == EINTR) {
    }
}

/// Runs the calling thread on one processor alone, where that is allowed.
void stay_on(int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/// Seconds of one processor for waking up a thread that sleeps, while the one that wakes it falls
/// asleep. Both are on one processor: waking up another one that is idle takes ten times as long.
double wake_up_s() {
    Descriptors events;
    for (int& fd : events.fds) {
        fd = eventfd(0, EFD_CLOEXEC);
        if (fd < 0) throw_system_error("an eventfd for measuring the processor");
    }
    const int processor = sched_getcpu();
    double result_s = 0;
    std::jthread answering([&] {
        stay_on(processor);
        for (std::size_t i = 0; i < kRounds * kWakeUps; ++i) {
            sleep_until_woken(events.fds[0]);
            wake(events.fds[1]);
        }
    });
    std::jthread asking([&] {
        stay_on(processor);
        result_s = shortest_s([&] {
            const double start_s = processor_s(CLOCK_PROCESS_CPUTIME_ID);
            for (std::size_t i = 0; i < kWakeUps; ++i) {
                wake(events.fds[0]);
                sleep_until_woken(events.fds[1]);
            }
            return (processor_s(CLOCK_PROCESS_CPUTIME_ID) - start_s) / (2.0 * kWakeUps);
        });
    });
    asking.join();
    return result_s;
}

nb::dict processor_speed() {
    Forwarding forwarding;
    const double empty_s = datagram_s(64);
    const double full_s = datagram_s(kDatagramBytes);
    nb::dict speed;
    speed["forwarded_s"] = shortest_s([&] { return forwarding.segment_s(); });
    speed["copied_byte_s"] = copied_byte_s();
    speed["added_byte_s"] = added_byte_s();
    speed["datagram_s"] = empty_s;
    speed["datagram_byte_s"] = std::max(0.0, full_s - empty_s) / (kDatagramBytes - 64);
    speed["wake_up_s"] = wake_up_s();
    return speed;
}

}  // namespace

void bind_processor_speed(nb::module_& module) {
    module.def("processor_speed", &processor_speed,
               nb::sig("def processor_speed() -> dict[str, float]"),
               "Seconds that this processor needs for passing a segment on, for copying and adding "
               "a byte, for a datagram and a byte of it, and for waking up a thread.");
}

}  // namespace innet::bindings
