#include "switch_emulator/driver/node_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

namespace innet::driver {
namespace {

constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
constexpr int kMaxEvents = 64;
/// The thread wakes up for deferred functions when this many have been posted.
constexpr std::size_t kMaxUnhurried = 16;

/// A caller whose next operation comes sooner than this after its last one finds the seat free.
constexpr Duration kLinger = std::chrono::microseconds(500);

/// Interval between reads of the wall clock, which may be set, and advances in system sleep.
constexpr Duration kWallClockInterval = std::chrono::seconds(1);

timespec to_timespec(Duration duration) {
    const auto ns = std::max(Duration::zero(), duration).count();
    return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

std::int64_t in_ms(std::chrono::system_clock::duration duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// Management knows the time of the day, and the engine's clock none: what it was when that said 0.
std::int64_t wall_time_at_zero_ms(TimePoint now) {
    return in_ms(std::chrono::system_clock::now().time_since_epoch()) -
           in_ms(now.time_since_epoch());
}

management::ManagementOptions management_options(TimePoint now) {
    management::ManagementOptions options;
    options.wall_time_at_zero_ms = wall_time_at_zero_ms(now);
    options.started_ms =
        static_cast<std::uint64_t>(in_ms(std::chrono::system_clock::now().time_since_epoch()));
    return options;
}

EndpointOptions with_hasher(EndpointOptions options, security::BatchHasher& hasher) {
    options.hasher = &hasher;
    return options;
}

}  // namespace

NodeThread::NodeThread(forwarding::NodeOptions node_options, EndpointOptions endpoint_options,
                       security::Keyring keyring, std::unique_ptr<security::Signer> signer)
    : stack_(std::move(node_options), with_hasher(endpoint_options, hasher_), std::move(keyring),
             std::move(signer), pool_, management_options(clock_now())),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      links_(stack_.node(), hasher_, pool_, epoll_.get()),
      listeners_(links_, pool_, epoll_.get()),
      face_factory_(links_, listeners_, epoll_.get()),
      linger_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    if (!epoll_ || !wake_ || !linger_) {
        throw std::system_error(errno, std::generic_category(),
                                "a node needs three more file descriptors");
    }
    stack_.management().set_face_factory(&face_factory_);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;  // one event per write; the counter is never read
    event.data.u64 = kWakeTag;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

NodeThread::~NodeThread() { stop("the node was closed"); }

std::optional<FaceId> NodeThread::add_link(const LinkOptions& options, std::string& error) {
    if (!may_add_links(error)) return std::nullopt;
    auto socket = UdpSocket::open(options.endpoints, options.receive_buffer_bytes,
                                  options.send_buffer_bytes, error);
    if (!socket) {
        return std::nullopt;
    }
    return links_.add(std::make_unique<UdpSocket>(std::move(*socket)), options.shape, error);
}

std::optional<FaceId> NodeThread::add_shared_memory_link(
    const SharedMemoryEnd& end, const std::optional<simulation::LinkOptions>& shape, bool trusted,
    std::string& error) {
    auto channel = SharedMemoryChannel::open(end, error);
    if (!may_add_links(error) || channel == nullptr) return std::nullopt;
    return links_.add(std::move(channel), shape, error, trusted);
}

bool NodeThread::may_add_links(std::string& error) const {
    if (thread_.joinable()) error = "the node is running: add its links before it starts";
    return !thread_.joinable();
}

std::optional<std::string> NodeThread::listen(const ListenerOptions& options, std::string& error) {
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            error = "the node was stopped";
            return std::nullopt;
        }
    }
    return listeners_.open(options, error);
}

void NodeThread::start() {
    {
        const std::lock_guard lock(mutex_);
        accepting_ = true;
    }
    thread_ = std::thread([this] { run(); });
}

bool NodeThread::set_realtime_priority(int priority) {
    const sched_param parameters{.sched_priority = priority};
    return thread_.joinable() &&
           ::pthread_setschedparam(thread_.native_handle(), SCHED_RR, &parameters) == 0;
}

void NodeThread::stop(const std::string& why) {
    {
        const std::lock_guard lock(mutex_);
        if (!stopping_) {
            stopping_ = true;
            stop_reason_ = why;
        }
        stops_.store(true);
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    }
    set_linger(Duration(1));
    if (thread_.joinable()) {
        thread_.join();
    }
}

bool NodeThread::post(std::function<void(Engine&)> function) {
    if (enqueue(std::move(function)) == 0) return false;
    wake_up();
    return true;
}

bool NodeThread::post_deferred(std::function<void(Engine&)> function) {
    const std::size_t posted = enqueue(std::move(function));
    if (posted >= kMaxUnhurried) wake_up();
    return posted > 0;
}

std::size_t NodeThread::enqueue(std::function<void(Engine&)> function) {
    const std::lock_guard lock(mutex_);
    if (accepting_) posted_.push_back(std::move(function));
    return accepting_ ? posted_.size() : 0;
}

// The posting thread reads `sleeps_` after it has queued the function, and this thread checks the
// queue after it has set `sleeps_`: at least one of them sees the other's write.
void NodeThread::wake_up() {
    if (seat_.load() == Seat::kFree) set_linger(Duration(1));
    if (!sleeps_.exchange(false)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

bool NodeThread::nothing_posted() {
    const std::lock_guard lock(mutex_);
    return posted_.empty();
}

bool NodeThread::call(const std::function<void(Engine&)>& function) {
    PriorityMutex done_mutex;
    PriorityCondition done_changed;
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
    do {
        step(kNever);
        if (completed_ && seat_wanted_.exchange(false)) offer_seat();
    } while (!has_ended());
    listeners_.close();
    links_.close_foreign(now_);
    stack_.abort(stop_reason_, now_, finished_);
    completions_.post(finished_);
}

bool NodeThread::has_ended() {
    const std::lock_guard lock(mutex_);
    const bool ended = stopping_ && posted_.empty();
    if (ended) accepting_ = false;
    return ended;
}

void NodeThread::step(TimePoint latest) {
    wait_for_events(latest);
    run_timers();
    links_.note_refusals(now_);
    stack_.settle(now_, finished_);
    links_.flush(now_);
    if (links_.note_refusals(now_)) {  // met while sending: no event reports them again
        stack_.settle(now_, finished_);
        links_.flush(now_);
    }
    completed_ = !finished_.empty();
    if (completed_) completions_.post(finished_);
}

// Who leaves the seat frees it before setting the timer, so that the timer is always set after the
// seat was freed for the last time.
void NodeThread::offer_seat() {
    Seat seat = Seat::kFree;
    seat_.store(seat);
    set_linger(kLinger);
    do {
        std::uint64_t expirations = 0;
        [[maybe_unused]] const auto read = ::read(linger_.get(), &expirations, sizeof expirations);
        seat = Seat::kFree;
    } while (!seat_.compare_exchange_strong(seat, Seat::kThread));
}

void NodeThread::set_linger(Duration delay) {
    const itimerspec timer{.it_interval = {}, .it_value = to_timespec(delay)};
    ::timerfd_settime(linger_.get(), 0, &timer, nullptr);
}

std::optional<OperationCompletion> NodeThread::wait_for(OperationId id, Duration at_most) {
    const TimePoint begun = clock_now();
    std::optional<OperationCompletion> completion;
    Seat seat = Seat::kFree;
    if (!stops_.load() && seat_.compare_exchange_strong(seat, Seat::kCaller)) {
        set_linger(Duration::zero());
        completion = drive(id, begun + at_most);
        seat_.store(Seat::kFree);
        set_linger(kLinger);
    } else {
        const bool is_soon =
            begun.time_since_epoch().count() - last_wait_ns_.load() < kLinger.count();
        if (is_soon) seat_wanted_.store(true);
        wake_up();
        completion = completions_.wait(id, at_most);
    }
    last_wait_ns_.store(clock_now().time_since_epoch().count());
    return completion;
}

std::optional<OperationCompletion> NodeThread::drive(OperationId id, TimePoint latest) {
    do {
        step(latest);
        if (completed_) {
            if (auto completion = completions_.wait(id, Duration::zero())) return completion;
        }
    } while (!interrupted_ && !stops_.load() && now_ < latest);
    return std::nullopt;
}

void NodeThread::wait_for_events(TimePoint latest) {
    std::array<epoll_event, kMaxEvents> events{};
    const TimePoint deadline = std::min(next_deadline(), latest);
    timespec timeout{};
    timespec* limit = nullptr;
    sleeps_.store(true);
    if (!links_.rest() || !nothing_posted()) {
        limit = &timeout;
    } else if (deadline != kNever) {
        timeout = to_timespec(deadline - clock_now());
        limit = &timeout;
    }
    const int count = ::epoll_pwait2(epoll_.get(), events.data(), kMaxEvents, limit, nullptr);
    interrupted_ = count < 0 && errno == EINTR;
    sleeps_.store(false);
    now_ = clock_now();
    if (now_ >= next_wall_clock_look_) {
        next_wall_clock_look_ = now_ + kWallClockInterval;
        stack_.management().set_wall_time_at_zero(wall_time_at_zero_ms(now_), now_);
    }
    // Deferred functions run before packets that depend on them; and packets that they send need
    // not wait for slow work, such as hashing.
    if (run_posted()) {
        stack_.settle(now_, finished_);
        links_.flush(now_);
    }
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        on_event(event.data.u64, event.events);
    }
    links_.receive_without_event(now_);
}

void NodeThread::on_event(std::uint64_t tag, std::uint32_t events) {
    if (tag == kWakeTag) return;
    if (Listeners::is_tag(tag)) return listeners_.on_readable(tag, now_);
    if (SocketFaceFactory::is_tag(tag)) return face_factory_.on_event(tag, now_);
    const auto face = static_cast<FaceId>(tag);
    if ((events & EPOLLOUT) != 0) links_.on_writable(face, now_);
    links_.on_readable(face, now_);
}

bool NodeThread::run_posted() {
    {
        const std::lock_guard lock(mutex_);
        running_.swap(posted_);
    }
    if (running_.empty()) return false;
    Engine engine = stack_.engine(now_);
    for (auto& function : running_) {
        function(engine);
    }
    running_.clear();
    return true;
}

void NodeThread::run_timers() {
    stack_.run_timers(now_);
    links_.on_timer(now_);
    listeners_.on_timer(now_);
    face_factory_.run_pending(now_);
}

TimePoint NodeThread::next_deadline() const {
    return std::min({stack_.next_deadline(), links_.next_deadline(), listeners_.next_deadline(),
                     face_factory_.next_deadline()});
}

}  // namespace innet::driver
