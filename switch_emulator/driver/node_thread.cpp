#include "switch_emulator/driver/node_thread.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

namespace innet::driver {
namespace {

constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
constexpr int kMaxEvents = 64;
/// Receive calls per socket and round: bounds how long one busy link keeps the others waiting.
constexpr int kReceiveRounds = 4;
/// Packets a link that is not modelled may hold back while its socket is full.
constexpr std::size_t kMaxBacklogPackets = 16384;

}  // namespace

struct NodeThread::Link {
    Link(UdpSocket udp, FaceId id) : socket(std::move(udp)), face(id) {}

    UdpSocket socket;
    FaceId face;
    std::optional<simulation::Link> model;
    std::vector<OutgoingPacket> ready;  ///< leaves next; [sent, size) is still here
    std::size_t sent = 0;
    std::uint64_t backlog_dropped = 0;
    bool waits_for_room = false;
    std::uint64_t refusals_noted = 0;

    std::size_t backlog() const { return ready.size() - sent; }
};

NodeThread::NodeThread(forwarding::NodeOptions node_options, EndpointOptions endpoint_options,
                       security::Keyring keyring, std::unique_ptr<security::Signer> signer)
    : stack_(std::move(node_options), endpoint_options, std::move(keyring), std::move(signer),
             pool_),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!epoll_ || !wake_) {
        throw std::system_error(errno, std::generic_category(),
                                "a node needs two more file descriptors");
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeTag;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

NodeThread::~NodeThread() { stop("the node was closed"); }

std::optional<FaceId> NodeThread::add_link(const LinkOptions& options, std::string& error) {
    if (thread_.joinable()) {
        error = "the node is running: add its links before it starts";
        return std::nullopt;
    }
    auto socket = UdpSocket::open(options.endpoints, options.receive_buffer_bytes,
                                  options.send_buffer_bytes, error);
    if (!socket) {
        return std::nullopt;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = links_.size();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket->fd(), &event) != 0) {
        error = "epoll_ctl refused the socket";
        return std::nullopt;
    }
    // Last, so that a link's face is its place here whatever failed before.
    const FaceId face = stack_.node().add_face();
    auto link = std::make_unique<Link>(std::move(*socket), face);
    if (options.shape) {
        link->model.emplace(*options.shape, pool_);
    }
    links_.push_back(std::move(link));
    return face;
}

void NodeThread::start() {
    {
        const std::lock_guard lock(mutex_);
        accepting_ = true;
    }
    thread_ = std::thread([this] { run(); });
}

void NodeThread::stop(const std::string& why) {
    {
        const std::lock_guard lock(mutex_);
        if (!stopping_) {
            stopping_ = true;
            stop_reason_ = why;
        }
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    }
    if (thread_.joinable()) {
        thread_.join();
    }
}

bool NodeThread::post(std::function<void(Engine&)> function) {
    {
        const std::lock_guard lock(mutex_);
        if (!accepting_) {
            return false;
        }
        posted_.push_back(std::move(function));
    }
    if (!wake_pending_.exchange(true)) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    }
    return true;
}

bool NodeThread::call(const std::function<void(Engine&)>& function) {
    std::mutex done_mutex;
    std::condition_variable done_changed;
    bool done = false;
    std::exception_ptr thrown;
    const bool queued = post([&](Engine& engine) {
        try {
            function(engine);
        } catch (...) {
            thrown = std::current_exception();
        }
        const std::lock_guard lock(done_mutex);
        done = true;
        done_changed.notify_one();
    });
    if (!queued) {
        return false;
    }
    std::unique_lock lock(done_mutex);
    done_changed.wait(lock, [&] { return done; });
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    return true;
}

TimePoint NodeThread::clock_now() {
    return TimePoint(std::chrono::steady_clock::now().time_since_epoch());
}

void NodeThread::run() {
    ::pthread_setname_np(::pthread_self(), "innet-node");
    while (true) {
        wait_for_events();
        run_posted();
        stack_.run_timers(now_);
        note_refusals();
        stack_.settle(now_, finished_);
        flush();
        if (note_refusals()) {  // met while sending: no event will tell of them again
            stack_.settle(now_, finished_);
            flush();
        }
        if (!finished_.empty()) {
            completions_.post(finished_);
        }
        const std::lock_guard lock(mutex_);
        if (stopping_ && posted_.empty()) {
            accepting_ = false;
            break;
        }
    }
    stack_.abort(stop_reason_, now_, finished_);
    completions_.post(finished_);
}

void NodeThread::wait_for_events() {
    std::array<epoll_event, kMaxEvents> events{};
    const TimePoint deadline = next_deadline();
    timespec timeout{};
    timespec* limit = nullptr;
    if (deadline != kNever) {
        const auto left = std::max(Duration::zero(), deadline - clock_now()).count();
        timeout.tv_sec = left / 1'000'000'000;
        timeout.tv_nsec = left % 1'000'000'000;
        limit = &timeout;
    }
    const int count = ::epoll_pwait2(epoll_.get(), events.data(), kMaxEvents, limit, nullptr);
    now_ = clock_now();
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == kWakeTag) {
            // In this order: a wake-up that comes between the two finds the flag set and writes
            // nothing, but its function is there when `run_posted` looks. The other way round, its
            // byte would be drained and its flag would stay: nobody would wake this thread again.
            std::uint64_t drained = 0;
            [[maybe_unused]] const auto read = ::read(wake_.get(), &drained, sizeof drained);
            wake_pending_.store(false);
            continue;
        }
        Link& link = *links_[event.data.u64];
        if ((event.events & EPOLLOUT) != 0) {
            set_writable_interest(link, false);
        }
        receive(link);
    }
}

void NodeThread::receive(Link& link) {
    for (int round = 0; round < kReceiveRounds; ++round) {
        const bool more = link.socket.receive(pool_, received_);
        for (PacketTap& tap : taps_) tap.on_received(link.face, received_);
        for (PacketRef& packet : received_) {
            stack_.node().on_packet(link.face, std::move(packet), now_);
        }
        received_.clear();
        if (!more) {
            return;
        }
    }
}

void NodeThread::run_posted() {
    {
        const std::lock_guard lock(mutex_);
        running_.swap(posted_);
    }
    Engine engine = stack_.engine(now_);
    for (auto& function : running_) {
        function(engine);
    }
    running_.clear();
}

bool NodeThread::note_refusals() {
    bool any = false;
    for (auto& link : links_) {
        const std::uint64_t refused = link->socket.counters().refused;
        if (refused == link->refusals_noted) continue;
        link->refusals_noted = refused;
        stack_.node().on_peer_gone(link->face, now_);
        any = true;
    }
    return any;
}

void NodeThread::flush() {
    for (auto& link : links_) {
        flush_link(*link);
    }
    remove_closed_taps();
}

void NodeThread::remove_closed_taps() {
    std::erase_if(taps_, [](const PacketTap& tap) { return tap.closed(); });
}

void NodeThread::flush_link(Link& link) {
    std::vector<OutgoingPacket>& queue = stack_.node().outbox().queue(link.face);
    if (link.model) {
        for (OutgoingPacket& packet : queue) {
            link.model->enqueue(std::move(packet), now_);
        }
        queue.clear();
        link.model->take_arrived(now_, link.ready);
    } else if (!queue.empty()) {
        const std::size_t room = kMaxBacklogPackets - std::min(kMaxBacklogPackets, link.backlog());
        const std::size_t taken = std::min(room, queue.size());
        if (link.ready.empty() && taken == queue.size()) {
            link.ready.swap(queue);
        } else {
            std::move(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(taken),
                      std::back_inserter(link.ready));
            link.backlog_dropped += queue.size() - taken;
        }
        queue.clear();
    }
    if (link.backlog() == 0 || link.waits_for_room) {
        return;
    }
    const auto leaving = std::span(link.ready).subspan(link.sent);
    const std::size_t left = link.socket.send(leaving);
    for (PacketTap& tap : taps_) tap.on_sent(link.face, leaving.first(left));
    link.sent += left;
    if (link.backlog() == 0) {
        link.ready.clear();
        link.sent = 0;
    } else {
        set_writable_interest(link, true);
        if (link.sent > link.backlog()) {  // keeps moving the rest to the front cheap
            link.ready.erase(link.ready.begin(),
                             link.ready.begin() + static_cast<std::ptrdiff_t>(link.sent));
            link.sent = 0;
        }
    }
}

void NodeThread::set_writable_interest(Link& link, bool wanted) {
    if (link.waits_for_room == wanted) {
        return;
    }
    link.waits_for_room = wanted;
    epoll_event event{};
    event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.u64 = link.face;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.socket.fd(), &event);
}

TimePoint NodeThread::next_deadline() const {
    TimePoint deadline = stack_.next_deadline();
    for (const auto& link : links_) {
        if (link->model) {
            deadline = std::min(deadline, link->model->next_deadline());
        }
    }
    return deadline;
}

std::vector<LinkStatus> NodeThread::link_status() const {
    std::vector<LinkStatus> result;
    for (const auto& link : links_) {
        LinkStatus status;
        status.face = link->face;
        status.face_counters = stack_.node().face_counters(link->face);
        status.socket_counters = link->socket.counters();
        if (link->model) {
            status.link_counters = link->model->counters();
        }
        status.backlog_packets = link->backlog();
        status.backlog_dropped = link->backlog_dropped;
        status.silent = stack_.node().is_silent(link->face);
        result.push_back(status);
    }
    return result;
}

}  // namespace innet::driver
