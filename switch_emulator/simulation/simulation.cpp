#include "switch_emulator/simulation/simulation.hpp"

#include <algorithm>

namespace innet::simulation {
namespace {

/// More rounds than this at one instant, and time is taken to stand still.
constexpr std::uint64_t kMostRoundsAtOnce = 1'000'000;

std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
    // FNV-1a's step (Fowler, Noll and Vo), on words.
    return (digest ^ value) * 0x100000001b3ULL;
}

FaceOptions face_options(const LinkOptions& link) { return {.lossy = link.port.loss > 0.0}; }

}  // namespace

Simulation::Simulation(SharedTables* tables) : tables_(tables) {
    counters_.digest = 0xcbf29ce484222325ULL;
}

void Simulation::start(Node& node, NodeMakings makings) {
    node.stack = std::make_unique<driver::NodeStack>(std::move(makings.node), makings.endpoint,
                                                     std::move(makings.keyring),
                                                     std::move(makings.signer), pool_);
    node.stack->node().set_route_source(node.lookup.get());
    node.stack->node().reducer().set_rule_source(node.lookup.get());
}

NodeIndex Simulation::add_node(NodeMakings makings) {
    const auto index = static_cast<NodeIndex>(nodes_.size());
    auto node = std::make_unique<Node>();
    if (tables_ != nullptr) {
        node->lookup = std::make_unique<Lookup>(*tables_, index);
    }
    start(*node, std::move(makings));
    nodes_.push_back(std::move(node));
    node_deadlines_.add();
    return index;
}

Connection Simulation::connect(NodeIndex first, NodeIndex second, const LinkOptions& forth,
                               const LinkOptions& back) {
    Connection made;
    made.first_face = nodes_[first]->stack->node().add_face(face_options(forth));
    made.second_face = nodes_[second]->stack->node().add_face(face_options(back));
    const auto add = [this](NodeIndex from, NodeIndex to, FaceId face, const LinkOptions& options) {
        auto link = std::make_unique<OneWay>(options, pool_);
        link->from = from;
        link->to = to;
        link->face = face;
        links_.push_back(std::move(link));
        link_deadlines_.add();
        const auto index = static_cast<LinkIndex>(links_.size() - 1);
        nodes_[from]->links.push_back(index);
        return index;
    };
    made.forth = add(first, second, made.second_face, forth);
    made.back = add(second, first, made.first_face, back);
    return made;
}

bool Simulation::call(NodeIndex index, const std::function<void(driver::Engine&)>& function) {
    Node& node = *nodes_[index];
    if (!node.stack) {
        return false;
    }
    driver::Engine engine = node.stack->engine(time_of(node));
    touch(index);
    function(engine);
    return true;
}

Stop Simulation::run(Duration until, std::uint64_t most_packets) {
    const TimePoint end = kStart + std::min(until, kNever - kStart);
    const std::uint64_t last_packet = counters_.packets + most_packets;
    std::uint64_t rounds_at_once = 0;
    settle_touched();
    while (ended_.empty() && !streams_.has_arrived()) {
        if (!complaint_.empty()) return Stop::kUnsound;
        const TimePoint next = std::min(
            {node_deadlines_.earliest(), link_deadlines_.earliest(), streams_.next_deadline()});
        if (next > end || next == kNever) {
            now_ = end == kNever ? now_ : std::max(now_, end);
            return Stop::kTime;
        }
        if (counters_.packets >= last_packet) {
            return Stop::kSlice;
        }
        rounds_at_once = next > now_ ? 0 : rounds_at_once + 1;
        if (rounds_at_once > kMostRoundsAtOnce) {
            return Stop::kStuck;
        }
        now_ = std::max(now_, next);
        ++counters_.rounds;
        do_due();
        settle_touched();
    }
    return Stop::kEnded;
}

std::vector<std::pair<NodeIndex, OperationCompletion>> Simulation::take_ended() {
    return std::exchange(ended_, {});
}

bool Simulation::idle() const {
    return touched_.empty() && node_deadlines_.earliest() == kNever &&
           link_deadlines_.earliest() == kNever && streams_.next_deadline() == kNever;
}

void Simulation::do_due() {
    deliver_due();
    streams_.on_timer(now_);
    while (node_deadlines_.earliest() <= now_) {
        const NodeIndex node = node_deadlines_.first();
        node_deadlines_.set(node, kNever);  // until it is settled, which runs its timers
        touch(node);
    }
}

// Node by node, each with all that reaches it now and what follows from that: its tables are in the
// processor's cache then, in which those of a thousand nodes have no room.
void Simulation::deliver_due() {
    while (link_deadlines_.earliest() <= now_) {
        const LinkIndex link = link_deadlines_.first();
        link_deadlines_.set(link, kNever);  // until it has delivered
        due_.emplace_back(links_[link]->to, link);
    }
    std::ranges::sort(due_);
    for (std::size_t i = 0; i < due_.size(); ++i) {
        const auto [node, link] = due_[i];
        deliver(link);
        if (i + 1 == due_.size() || due_[i + 1].first != node) settle_touched();
    }
    due_.clear();
}

void Simulation::deliver(LinkIndex index) {
    OneWay& link = *links_[index];
    link.link.take_arrived(now_, arrived_);
    for (OutgoingPacket& packet : arrived_) {
        counters_.digest = mix(
            mix(mix(counters_.digest, static_cast<std::uint64_t>(now_.time_since_epoch().count())),
                index),
            packet.size());
        for (capture::PacketObserver* observer : observers_) {
            observer->on_arrival(now(), index, packet);
        }
        if (packet.header_size == 0 && stream::is_stream_packet(packet.payload)) {
            receive_of_stream(link.to, index, packet.payload);
        } else {
            receive(link.to, link.face, contiguous(std::move(packet)));
        }
    }
    arrived_.clear();
    link_deadlines_.set(index, link.link.next_deadline());
}

void Simulation::receive(NodeIndex to, FaceId face, PacketRef packet) {
    Node& node = *nodes_[to];
    ++counters_.packets;
    if (!node.stack) {
        ++counters_.dropped_dead;
        return;
    }
    if (node.paused) {
        if (node.held_bytes + packet.size() > kReceiveBufferBytes) {
            ++counters_.dropped_paused;
            return;
        }
        node.held_bytes += packet.size();
        node.held.emplace_back(face, std::move(packet));
        return;
    }
    touch(to);
    node.stack->node().on_packet(face, std::move(packet), time_of(node));
}

void Simulation::receive_of_stream(NodeIndex to, LinkIndex link, const PacketRef& packet) {
    ++counters_.packets;
    if (nodes_[to]->stack) {
        streams_.on_packet(link, packet, now_);  // the host of a paused node still runs
    } else {
        ++counters_.dropped_dead;
    }
}

void Simulation::put(LinkIndex index, PacketRef packet) {
    OneWay& link = *links_[index];
    if (!nodes_[link.from]->stack) {
        ++counters_.dropped_dead;
        return;
    }
    OutgoingPacket outgoing;
    outgoing.payload = std::move(packet);
    link.link.enqueue(std::move(outgoing), now_);
    link_deadlines_.set(index, link.link.next_deadline());
}

Duration Simulation::time_to_room(LinkIndex link) {
    return links_[link]->link.time_to_half_queue(now_);
}

PacketRef Simulation::contiguous(OutgoingPacket&& packet) {
    if (packet.header_size == 0) {
        return std::move(packet.payload);
    }
    PacketRef whole = pool_.allocate(packet.header_size + packet.payload.size());
    whole.set_virtual_bytes(packet.payload.virtual_bytes());
    const auto bytes = whole.writable();
    std::ranges::copy(packet.header_bytes(), bytes.begin());
    std::ranges::copy(packet.payload.bytes(), bytes.begin() + packet.header_size);
    return whole;
}

void Simulation::touch(NodeIndex index) {
    Node& node = *nodes_[index];
    if (!node.touched) {
        node.touched = true;
        touched_.push_back(index);
    }
}

void Simulation::settle_touched() {
    std::ranges::sort(touched_);
    for (const NodeIndex index : touched_) {
        nodes_[index]->touched = false;
        settle(index);
    }
    touched_.clear();
}

void Simulation::settle(NodeIndex index) {
    Node& node = *nodes_[index];
    if (!node.stack || node.paused) {
        node_deadlines_.set(index, kNever);
        return;
    }
    node.stack->run_timers(time_of(node));
    collect(index);
    flush(node);
    const TimePoint deadline = node.stack->next_deadline();
    node_deadlines_.set(index, deadline == kNever ? kNever : deadline - node.clock_offset);
    if (audit_interval_ != 0 && ++settled_since_audit_ >= audit_interval_) {
        settled_since_audit_ = 0;
        audit(index);
    }
}

void Simulation::collect(NodeIndex index) {
    Node& node = *nodes_[index];
    if (!node.stack) return;
    node.stack->settle(time_of(node), ended_here_);
    for (OperationCompletion& completion : ended_here_) {
        ended_.emplace_back(index, std::move(completion));
    }
    ended_here_.clear();
}

void Simulation::audit(NodeIndex index) {
    AuditReport report;
    nodes_[index]->stack->audit(report);
    for (const LinkIndex link : nodes_[index]->links) links_[link]->link.audit(report);
    if (report.complaints().empty() || !complaint_.empty()) return;
    complaint_ = "node " + std::to_string(index) + " at " +
                 std::to_string(static_cast<double>(now().count()) * 1e-9) +
                 " s: " + report.complaints().front();
}

void Simulation::flush(Node& node) {
    Outbox& outbox = node.stack->node().outbox();
    for (FaceId face = 0; face < node.links.size(); ++face) {
        auto& queue = outbox.queue(face);
        if (queue.empty()) {
            continue;
        }
        const LinkIndex index = node.links[face];
        Link& link = links_[index]->link;
        for (OutgoingPacket& packet : queue) {
            link.enqueue(std::move(packet), now_);
        }
        queue.clear();
        link_deadlines_.set(index, link.next_deadline());
    }
}

void Simulation::crash(NodeIndex index, const std::string& why) {
    Node& node = *nodes_[index];
    if (!node.stack) {
        return;
    }
    node.stack->abort(why, time_of(node), ended_here_);
    for (OperationCompletion& completion : ended_here_) {
        ended_.emplace_back(index, std::move(completion));
    }
    ended_here_.clear();
    node.stack.reset();
    node.held.clear();
    node.held_bytes = 0;
    node.paused = false;
    node_deadlines_.set(index, kNever);
}

void Simulation::restart(NodeIndex index, NodeMakings makings) {
    Node& node = *nodes_[index];
    start(node, std::move(makings));
    for (const LinkIndex link : node.links) {
        node.stack->node().add_face(face_options(links_[link]->link.options()));
    }
    touch(index);
}

void Simulation::pause(NodeIndex node) { nodes_[node]->paused = true; }

void Simulation::resume(NodeIndex index) {
    Node& node = *nodes_[index];
    if (!node.paused) {
        return;
    }
    node.paused = false;
    node.held_bytes = 0;
    for (auto& [face, packet] : std::exchange(node.held, {})) {
        node.stack->node().on_packet(face, std::move(packet), time_of(node));
    }
    touch(index);
}

void Simulation::advance_clock(NodeIndex node, Duration by) {
    nodes_[node]->clock_offset += by;
    touch(node);
}

void Simulation::set_link_up(LinkIndex index, bool up) {
    Link& link = links_[index]->link;
    link.set_up(up, now_);
    link_deadlines_.set(index, link.next_deadline());
}

void Simulation::change_link(LinkIndex index, const LinkOptions& options) {
    Link& link = links_[index]->link;
    link.change(options, now_);
    const Node& from = *nodes_[links_[index]->from];
    const auto face = std::ranges::find(from.links, index) - from.links.begin();
    if (from.stack) from.stack->node().set_lossy(static_cast<FaceId>(face), options.port.loss > 0);
    link_deadlines_.set(index, link.next_deadline());
}

std::vector<driver::LinkStatus> Simulation::link_status(NodeIndex index) const {
    const Node& node = *nodes_[index];
    std::vector<driver::LinkStatus> result;
    for (FaceId face = 0; node.stack && face < node.links.size(); ++face) {
        driver::LinkStatus status;
        status.face = face;
        status.face_counters = node.stack->node().face_counters(face);
        status.link_counters = links_[node.links[face]]->link.counters();
        result.push_back(status);
    }
    return result;
}

}  // namespace innet::simulation
