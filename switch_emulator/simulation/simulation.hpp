#pragma once
// The simulator driver: any number of nodes on modelled links under one virtual clock.
//
// The nodes, their endpoints and reducers are the ones that the socket driver runs; the links are
// `Link`s. Whatever happens at one instant happens in a fixed order (links by number, then nodes by
// number), and nothing but the seeds in the options is random: the same calls give the same events.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "switch_emulator/driver/link_status.hpp"
#include "switch_emulator/driver/node_stack.hpp"
#include "switch_emulator/simulation/capture/packet_observer.hpp"
#include "switch_emulator/simulation/link.hpp"
#include "switch_emulator/simulation/stream/stream_table.hpp"
#include "transport/deadline_heap.hpp"

namespace innet::simulation {

using NodeIndex = std::uint32_t;
using stream::LinkIndex;

/// What a node is made from, at the start and again after a crash.
struct NodeMakings {
    forwarding::NodeOptions node;
    EndpointOptions endpoint;
    security::Keyring keyring;
    std::unique_ptr<security::Signer> signer;
};

/// The two directions of a link, and its face at each end.
struct Connection {
    LinkIndex forth = 0;  ///< from the first node to the second
    LinkIndex back = 0;
    FaceId first_face = kNoFace;
    FaceId second_face = kNoFace;
};

/// Routes and rules that all nodes look up on demand. N tables of N nodes would take most of a
/// large simulation's memory and setup time.
class SharedTables {
  public:
    virtual ~SharedTables() = default;
    virtual std::optional<forwarding::Route> route_to(NodeIndex node, wire::NameView name) = 0;
    virtual std::optional<reduction::Rule> rule_for(NodeIndex node, wire::NameView group,
                                                    wire::ByteView interval) = 0;
};

/// Why `Simulation::run` came back.
enum class Stop : std::uint8_t {
    kEnded,    ///< operations (see `take_ended`) or watched bytes of streams
    kTime,     ///< the time given was reached
    kSlice,    ///< the requested number of packets was delivered
    kStuck,    ///< time stands still: something is always due again at once
    kUnsound,  ///< an audit complains: see `complaint`
};

struct SimulationCounters {
    std::uint64_t packets = 0;         ///< delivered to a node
    std::uint64_t rounds = 0;          ///< instants at which something happened
    std::uint64_t dropped_dead = 0;    ///< for a node that had crashed
    std::uint64_t dropped_paused = 0;  ///< for a paused node whose receive buffer was full
    /// Of when what size arrived on which link: equal for equal runs.
    std::uint64_t digest = 0;
};

class Simulation final : private stream::Wire {
  public:
    /// What a paused node's sockets hold for it.
    static constexpr std::size_t kReceiveBufferBytes = 4 << 20;

    /// `tables` outlives the simulation; null: nodes have only the state that the caller installs.
    explicit Simulation(SharedTables* tables = nullptr);

    NodeIndex add_node(NodeMakings makings);
    Connection connect(NodeIndex first, NodeIndex second, const LinkOptions& forth,
                       const LinkOptions& back);
    std::size_t links() const { return links_.size(); }

    /// Time since the simulation began.
    Duration now() const { return now_ - kStart; }
    /// Ends what needs nothing but the node itself, such as a publication, also when it is paused.
    void collect(NodeIndex node);
    /// Runs `function` on a node, at its own time. False when the node has crashed.
    bool call(NodeIndex node, const std::function<void(driver::Engine&)>& function);
    /// Lets time pass until operations have ended, or `until` is reached, or about `most_packets`
    /// were delivered.
    Stop run(Duration until, std::uint64_t most_packets);
    /// Streams of bytes between nodes; what is written there is written at `stream_time()`.
    stream::StreamTable& streams() { return streams_; }
    const stream::StreamTable& streams() const { return streams_; }
    TimePoint stream_time() const { return now_; }
    /// The operations that ended since the last call, and where.
    std::vector<std::pair<NodeIndex, OperationCompletion>> take_ended();
    /// Whether anything is left that could happen by itself.
    bool idle() const;

    /// The node loses everything; its operations end as aborted because of `why`.
    void crash(NodeIndex node, const std::string& why);
    /// The crashed node starts again with as many faces, and nothing in its tables.
    void restart(NodeIndex node, NodeMakings makings);
    bool is_alive(NodeIndex node) const { return nodes_[node]->stack != nullptr; }
    /// A paused node does nothing; its sockets hold what arrives (`kReceiveBufferBytes` of it).
    void pause(NodeIndex node);
    void resume(NodeIndex node);
    /// The node's clock jumps ahead, as after system sleep. (A monotonic clock never jumps back.)
    void advance_clock(NodeIndex node, Duration by);

    void set_link_up(LinkIndex link, bool up);
    void change_link(LinkIndex link, const LinkOptions& options);
    /// The node's links, by face.
    std::vector<driver::LinkStatus> link_status(NodeIndex node) const;

    LinkCounters link_counters(LinkIndex link) const { return links_[link]->link.counters(); }
    /// Looks through a node's tables and links after every `interval`-th time that it had something
    /// to do; 0: never. The first complaint stops the simulation for good.
    void set_audit_interval(std::uint32_t interval) { audit_interval_ = interval; }
    /// What was wrong, where and when; empty: nothing so far.
    const std::string& complaint() const { return complaint_; }
    /// `observer` receives every packet from now on, and outlives the simulation or its `forget`.
    void observe(capture::PacketObserver& observer) { observers_.push_back(&observer); }
    void forget(capture::PacketObserver& observer) { std::erase(observers_, &observer); }
    NodeIndex source_of(LinkIndex link) const { return links_[link]->from; }
    NodeIndex target_of(LinkIndex link) const { return links_[link]->to; }

    const SimulationCounters& counters() const { return counters_; }
    std::size_t pool_bytes_reserved() const { return pool_.bytes_reserved(); }

  private:
    /// Away from the clock's own zero, which some take for "never yet".
    static constexpr TimePoint kStart{std::chrono::hours(1)};

    /// A node's view of the shared tables.
    struct Lookup final : forwarding::RouteSource, reduction::RuleSource {
        Lookup(SharedTables& tables_, NodeIndex node_) : tables(tables_), node(node_) {}
        std::optional<forwarding::Route> route_to(wire::NameView name) override {
            return tables.route_to(node, name);
        }
        std::optional<reduction::Rule> rule_for(wire::NameView group,
                                                wire::ByteView interval) override {
            return tables.rule_for(node, group, interval);
        }
        SharedTables& tables;
        NodeIndex node;
    };
    struct Node {
        std::unique_ptr<Lookup> lookup;            ///< outlives the stack
        std::unique_ptr<driver::NodeStack> stack;  ///< null: crashed
        std::vector<LinkIndex> links;              ///< outgoing, by face
        Duration clock_offset{0};
        bool paused = false;
        bool touched = false;  ///< in `touched_`
        std::vector<std::pair<FaceId, PacketRef>> held;
        std::size_t held_bytes = 0;
    };
    struct OneWay {
        OneWay(const LinkOptions& options, PacketPool& pool) : link(options, pool) {}
        Link link;
        NodeIndex from = 0;
        NodeIndex to = 0;
        FaceId face = kNoFace;  ///< at `to`
    };

    void start(Node& node, NodeMakings makings);
    void put(LinkIndex link, PacketRef packet) override;
    Duration time_to_room(LinkIndex link) override;
    TimePoint time_of(const Node& node) const { return now_ + node.clock_offset; }
    void touch(NodeIndex node);
    void do_due();
    void deliver_due();
    void deliver(LinkIndex link);
    void receive(NodeIndex to, FaceId face, PacketRef packet);
    void receive_of_stream(NodeIndex to, LinkIndex link, const PacketRef& packet);
    PacketRef contiguous(OutgoingPacket&& packet);
    void settle_touched();
    void settle(NodeIndex node);
    void flush(Node& node);
    void audit(NodeIndex node);

    // Destroyed from the bottom up: owners of packets must be destroyed before the pool.
    SharedTables* tables_;
    PacketPool pool_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::unique_ptr<OneWay>> links_;
    stream::StreamTable streams_{*this, pool_};
    std::vector<capture::PacketObserver*> observers_;
    DeadlineHeap node_deadlines_;
    DeadlineHeap link_deadlines_;
    std::vector<std::pair<NodeIndex, LinkIndex>>
        due_;  ///< scratch: nodes with due packets, and the links
    std::vector<NodeIndex> touched_;
    std::vector<OutgoingPacket> arrived_;
    std::vector<OperationCompletion> ended_here_;
    std::vector<std::pair<NodeIndex, OperationCompletion>> ended_;
    SimulationCounters counters_;
    std::uint32_t audit_interval_ = 0;
    std::uint32_t settled_since_audit_ = 0;
    std::string complaint_;
    TimePoint now_ = kStart;
};

}  // namespace innet::simulation
