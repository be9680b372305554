#pragma once
// The socket driver: one thread that runs a node, its endpoint, its links (over sockets or through
// shared memory), and the faces of whatever NDN programs connect to it.
//
// Everything the engine owns is touched by one thread at a time, which has the seat: the node's
// thread, or a caller of `wait_for` whose operations follow each other closely. Other threads reach
// it through `call` (run this there and wait) and `post` (run this there), and wait for operations
// on the completion board.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "switch_emulator/driver/completion_board.hpp"
#include "switch_emulator/driver/link_table.hpp"
#include "switch_emulator/driver/listeners.hpp"
#include "switch_emulator/driver/node_stack.hpp"
#include "switch_emulator/driver/packet_tap.hpp"
#include "switch_emulator/driver/parallel_hasher.hpp"
#include "switch_emulator/driver/shared_memory_channel.hpp"
#include "switch_emulator/driver/socket_face_factory.hpp"
#include "switch_emulator/driver/udp_socket.hpp"
#include "transport/priority_mutex.hpp"

namespace innet::driver {

struct LinkOptions {
    UdpEndpoints endpoints;
    int receive_buffer_bytes = 4 << 20;
    int send_buffer_bytes = 4 << 20;
    /// The emulated outgoing link; absent when the kernel shapes the link, or it is not shaped.
    std::optional<simulation::LinkOptions> shape;
};

class NodeThread {
  public:
    /// Operations submitted and tensors published are signed by `signer`; so are the node's sums.
    /// Throws std::system_error when the process has no file descriptors left.
    NodeThread(forwarding::NodeOptions node_options, EndpointOptions endpoint_options,
               security::Keyring keyring, std::unique_ptr<security::Signer> signer);
    ~NodeThread();
    NodeThread(const NodeThread&) = delete;
    NodeThread& operator=(const NodeThread&) = delete;

    /// Before `start`. The face's number, or nothing with `error` set.
    std::optional<FaceId> add_link(const LinkOptions& options, std::string& error);
    /// The same of a link whose packets go through shared memory. `trusted`: segments go without
    /// their MACs; a shaped link stands for one between machines, and should not be.
    std::optional<FaceId> add_shared_memory_link(
        const SharedMemoryEnd& end, const std::optional<simulation::LinkOptions>& shape,
        bool trusted, std::string& error);
    /// Before `start`, or on the node's thread: lets NDN programs connect there. The URI, with the
    /// port that the system chose; nothing, with `error` set, when it cannot be had.
    std::optional<std::string> listen(const ListenerOptions& options, std::string& error);
    void start();
    /// After `start`: lets the thread run before all that have an ordinary priority, and before
    /// threads of a lower real-time `priority` (1 to 99: SCHED_RR of sched(7)). False when the
    /// system does not allow it.
    bool set_realtime_priority(int priority);
    /// Ends the thread; operations in flight end as aborted. Safe to call twice.
    void stop(const std::string& why);

    /// Runs `function` on the node's thread and waits for it; what it throws is thrown here. False
    /// when the node is not running.
    bool call(const std::function<void(Engine&)>& function);
    /// Queues `function`, which must not throw, for the node's thread. False when the node is not
    /// running.
    bool post(std::function<void(Engine&)> function);
    /// Posts without a wake-up: `function` runs at the thread's next wake-up, before the event that
    /// caused it, or when many such functions wait.
    bool post_deferred(std::function<void(Engine&)> function);
    /// Wakes the thread up to run all posted functions now.
    void wake_up();
    /// Waits for an operation that was posted deferred; nothing when `at_most` passed, a signal
    /// came or the node is being stopped first. A caller that comes back soon after its last
    /// operation runs the node itself meanwhile: nobody is woken for it.
    std::optional<OperationCompletion> wait_for(OperationId id, Duration at_most);

    /// As the endpoint's, without waiting for the node's thread.
    std::vector<RequestedObject> take_requested_objects() {
        return stack_.engine({}).endpoint.take_requested_objects();
    }
    CompletionBoard& completions() { return completions_; }
    /// On the node's thread (inside `call`).
    std::vector<LinkStatus> link_status() const { return links_.status(); }
    const FaceTableCounters& face_counters() const { return links_.counters(); }
    /// Call it on the node's thread (inside `call`), as `LinkTable::reshape`.
    bool reshape_link(FaceId face, const simulation::LinkOptions& shape, bool up, TimePoint now) {
        return links_.reshape(face, shape, up, now);
    }
    management::FaceFactory& face_factory() { return face_factory_; }
    /// Call it on the node's thread (inside `call`). `tap` receives copies of all packets from now
    /// on, until its reader closes it.
    void add_tap(PacketTap tap) { links_.add_tap(std::move(tap)); }

  private:
    static TimePoint clock_now();
    bool may_add_links(std::string& error) const;
    /// How many have been posted; 0: the node is not running.
    std::size_t enqueue(std::function<void(Engine&)> function);
    bool nothing_posted();
    /// Who may touch the engine.
    enum class Seat { kThread, kFree, kCaller };

    void run();
    /// One round: events until `latest`, timers, what they cause. Needs the seat.
    void step(TimePoint latest);
    /// Whether the node was stopped, and nothing is left to run.
    bool has_ended();
    /// On the node's thread: lets callers have the seat until none wants it for a while.
    void offer_seat();
    std::optional<OperationCompletion> drive(OperationId id, TimePoint latest);
    /// The node's thread gets a free seat after `delay`; zero: not before it is set again.
    void set_linger(Duration delay);
    void wait_for_events(TimePoint latest);
    void on_event(std::uint64_t tag, std::uint32_t events);
    /// Whether there was anything.
    bool run_posted();
    void run_timers();
    TimePoint next_deadline() const;

    // Destroyed from the bottom up: owners of packets must be destroyed before the pool.
    PacketPool pool_;
    ParallelHasher hasher_;
    NodeStack stack_;
    CompletionBoard completions_;
    std::vector<OperationCompletion> finished_;
    FileDescriptor epoll_;
    FileDescriptor wake_;
    LinkTable links_;
    Listeners listeners_;
    SocketFaceFactory face_factory_;
    PriorityMutex mutex_;
    std::vector<std::function<void(Engine&)>> posted_;
    std::vector<std::function<void(Engine&)>> running_;
    bool accepting_ = false;
    bool stopping_ = false;
    std::string stop_reason_;
    TimePoint now_{};
    TimePoint next_wall_clock_look_{};
    /// Whether a posting thread must wake up the one that has the seat.
    std::atomic<bool> sleeps_ = false;
    std::atomic<Seat> seat_ = Seat::kThread;
    /// A caller that is likely to come back soon waits for its operation.
    std::atomic<bool> seat_wanted_ = false;
    std::atomic<bool> stops_ = false;
    /// When the last `wait_for` ended, in nanoseconds of the clock.
    std::atomic<std::int64_t> last_wait_ns_ = 0;
    FileDescriptor linger_;
    bool completed_ = false;    ///< in the last round
    bool interrupted_ = false;  ///< the last round, by a signal
    std::thread thread_;
};

}  // namespace innet::driver
