#include "switch_emulator/forwarding/node.hpp"

#include <algorithm>
#include <cassert>

#include "switch_emulator/forwarding/node_state.hpp"
#include "switch_emulator/tables/lru.hpp"
#include "switch_emulator/tables/s3fifo.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

namespace {

tables::PolicyMaker policy_maker(CachePolicy policy) {
    return [policy](std::size_t capacity_bytes) -> std::unique_ptr<tables::EvictionPolicy> {
        if (policy == CachePolicy::kLru) return std::make_unique<tables::Lru>();
        return std::make_unique<tables::S3Fifo>(capacity_bytes);
    };
}

reduction::ReducerOptions reducer_options(const NodeOptions& options) {
    reduction::ReducerOptions reducer = options.reducer;
    reducer.own_name = options.own_name;
    return reducer;
}

}  // namespace

Node::State::State(Node& node, NodeOptions node_options, PacketPool& packet_pool,
                   const security::Keyring& verification_keys, security::Signer* reduction_signer)
    : options(std::move(node_options)),
      pool(packet_pool),
      keyring(verification_keys),
      reducer(reducer_options(options), job_table, node, packet_pool, reduction_signer),
      sender(faces, reducer, counters, packet_pool),
      pit(options.pit_capacity),
      strategy_table(options.seed),
      content_store(options.cache_bytes, policy_maker(options.cache_policy), packet_pool),
      cache_settings{.capacity_bytes = options.cache_bytes, .admits = true, .serves = true},
      nonces(options.seed),
      liveness(options.link_timeout),
      reassembler(packet_pool) {}

Node::Node(NodeOptions options, PacketPool& pool, const security::Keyring& keyring,
           security::Signer* reduction_signer)
    : state_(std::make_unique<State>(*this, std::move(options), pool, keyring, reduction_signer)) {}

Node::~Node() = default;

void Node::set_application(Application* application) { state_->application = application; }

void Node::set_management(LocalService* management) { state_->management = management; }

FaceId Node::add_face(const FaceOptions& options) { return state_->add_face(options); }

void Node::close_face(FaceId face, TimePoint now) {
    if (!state_->faces.is_open(face)) return;
    state_->on_face_closed(face, now);
    state_->run_pending(now);
    state_->faces.release(face);
}

bool Node::is_open(FaceId face) const { return state_->faces.is_open(face); }

FaceNumber Node::face_number(FaceId face) const {
    assert(state_->faces.is_open(face));
    return state_->faces.number(face);
}

std::optional<FaceId> Node::find_face(FaceNumber number) const {
    return state_->faces.find(number);
}

const FaceOptions& Node::face_options(FaceId face) const {
    assert(face < state_->faces.size());
    return state_->faces.options(face);
}

void Node::install_job(const wire::Name& prefix, std::uint32_t weight,
                       std::unique_ptr<security::Signer> signer) {
    state_->install_job(prefix, weight, std::move(signer));
}

void Node::remove_job(const wire::Name& prefix, TimePoint now) { state_->remove_job(prefix, now); }

void Node::let_programs_ask(const wire::Name& prefix) { state_->let_programs_ask(prefix); }

void Node::bind_face(FaceId face, const wire::Name& prefix) {
    state_->faces.bind(face, state_->installed_job(prefix));
}

void Node::admit_face(FaceId face, const wire::Name& prefix) {
    state_->faces.admit(face, state_->installed_job(prefix));
}

void Node::dismiss_face(FaceId face, const wire::Name& prefix) {
    const jobs::Job* job = state_->job_table.find(prefix);
    if (job != nullptr) {
        state_->faces.dismiss(face, job->id);
    } else if (prefix.view().empty()) {
        state_->faces.dismiss(face, jobs::kNoJob);
    }
}

std::vector<JobStatus> Node::jobs() const { return state_->job_status(); }

void Node::on_peer_gone(FaceId face, TimePoint now) {
    if (!state_->faces.is_open(face)) return;
    state_->on_peer_gone(face, now);
    state_->run_pending(now);
}

void Node::add_route(const wire::Name& prefix, FaceId face, std::uint32_t cost) {
    state_->add_route(prefix, face, cost);
}

void Node::remove_route(const wire::Name& prefix, FaceId face) { state_->fib.remove(prefix, face); }

void Node::set_route_source(RouteSource* source) { state_->route_source = source; }

bool Node::set_strategy(const wire::Name& prefix, const wire::Name& strategy) {
    return state_->set_strategy(prefix, strategy.view());
}

bool Node::set_outside_strategy(const wire::Name& prefix, const wire::Name& strategy,
                                std::shared_ptr<strategies::StrategyListener> listener,
                                Duration patience) {
    return state_->set_outside_strategy(prefix, strategy, std::move(listener), patience);
}

void Node::decide(std::uint64_t question, const strategies::StrategyDecision& decision,
                  TimePoint now) {
    state_->decide(question, decision, now);
    state_->run_pending(now);
}

bool Node::unset_strategy(const wire::Name& prefix) { return state_->unset_strategy(prefix); }

bool Node::has_strategy_choice(const wire::Name& prefix) const {
    return state_->strategy_table.contains(prefix);
}

std::size_t Node::strategy_choice_count() const { return state_->strategy_table.size(); }

std::vector<StrategyChoice> Node::strategies() const { return state_->strategy_choices(); }

std::vector<Route> Node::routes() const {
    std::vector<Route> routes;
    state_->fib.for_each([&](const tables::FibEntry& entry) {
        for (const tables::NextHop& hop : entry.next_hops) {
            routes.push_back({entry.prefix, hop.face, hop.cost});
        }
    });
    std::ranges::sort(routes, {}, [](const Route& route) {
        return std::tie(route.prefix, route.cost, route.face);
    });
    return routes;
}

bool Node::has_route(const wire::Name& prefix, FaceId face) const {
    return state_->fib.contains(prefix, face);
}

bool Node::has_routes_to(FaceId face) const { return state_->fib.next_hops_of(face) != 0; }

std::size_t Node::route_count() const { return state_->fib.next_hops(); }

wire::NameView Node::last_unroutable() const {
    return wire::NameView::trusted(state_->last_unroutable);
}

void Node::remove_group(const wire::Name& prefix) {
    state_->reducer.remove_group(prefix);
    state_->content_store.drop_below(prefix.view());
}

std::size_t Node::drop_cache() { return state_->content_store.clear(); }

std::size_t Node::erase_cache(wire::NameView prefix, std::size_t limit) {
    return state_->content_store.drop_below(prefix, limit);
}

void Node::configure_cache(const CacheSettings& settings) {
    state_->cache_settings = settings;
    state_->content_store.set_capacity(settings.capacity_bytes);
    state_->content_store.set_use(settings.admits, settings.serves);
}

const CacheSettings& Node::cache_settings() const { return state_->cache_settings; }

reduction::Reducer& Node::reducer() { return state_->reducer; }
const reduction::Reducer& Node::reducer() const { return state_->reducer; }

void Node::on_packet(FaceId face, PacketRef packet, TimePoint now,
                     const security::Sha256Digest* data_digest) {
    if (!state_->faces.is_open(face)) return;
    const debug_log::NodeScope scope(state_->options.own_name.view());
    state_->sender.set_time(now);
    state_->on_packet(face, packet, now, data_digest);
    state_->run_pending(now);
}

bool Node::awaits_digests() const { return state_->pit.awaits_digests(); }

bool Node::needs_digest_of(wire::NameView data) const {
    if (!state_->pit.may_await_digest_of(data.hash())) return false;
    return state_->application == nullptr || !state_->application->can_tell_digest(data);
}

void Node::run_pending(TimePoint now) {
    const debug_log::NodeScope scope(state_->options.own_name.view());
    state_->sender.set_time(now);
    state_->run_pending(now);
}

void Node::on_timer(TimePoint now) {
    const debug_log::NodeScope scope(state_->options.own_name.view());
    state_->sender.set_time(now);
    state_->sender.send_due();
    state_->pit.timers().advance(now, [&](tables::TimerLink& link) {
        state_->on_entry_due(static_cast<tables::PitEntry&>(link), now);
    });
    state_->on_decisions_due(now);
    state_->reducer.on_timer(now);
    if (state_->management != nullptr && state_->management->next_deadline() <= now) {
        state_->management->on_timer(now);
    }
    if (state_->liveness.next_deadline() <= now) state_->on_hellos_due(now);
    state_->reassembler.on_timer(now);
    state_->run_pending(now);
}

TimePoint Node::next_deadline() const {
    if (!state_->requests.empty()) return state_->last_seen_now;
    return std::min({state_->pit.timers().next_deadline(), state_->reducer.next_deadline(),
                     state_->liveness.next_deadline(), state_->questions.next_deadline(),
                     state_->reassembler.next_deadline(), state_->sender.links.next_deadline(),
                     state_->management != nullptr ? state_->management->next_deadline() : kNever});
}

Outbox& Node::outbox() { return state_->sender.outbox; }

const NodeCounters& Node::counters() const {
    NodeCounters& counters = state_->counters;
    counters.pit_entries = state_->pit.size();
    counters.reflexive_routes = state_->reflexive_routes.size();
    counters.reassemblies_failed = state_->reassembler.given_up();
    const strategies::StrategyCounters& strategies = state_->strategy_table.counters;
    counters.strategy_probes = strategies.probes;
    counters.strategy_copies = strategies.copies;
    counters.strategy_late = strategies.decisions_late;
    counters.strategy_crowded_out = strategies.decisions_crowded_out;
    counters.strategy_failed = strategies.decisions_failed;
    counters.cache_inserts = state_->content_store.insertions();
    counters.cache_evictions = state_->content_store.evictions();
    counters.cache_bytes = state_->content_store.size_bytes();
    counters.cache_unverified_bytes = state_->content_store.unverified_bytes();
    counters.cache_entries = state_->content_store.entries();
    return counters;
}

const FaceCounters& Node::face_counters(FaceId face) const {
    assert(face < state_->faces.size());
    return state_->faces.counters(face);
}

void Node::count_forbidden_command(FaceId face) {
    if (is_network(face)) ++state_->faces.counters(face).commands_forbidden_in;
}

void Node::set_lossy(FaceId face, bool lossy) {
    if (is_open(face)) state_->set_lossy(face, lossy);
}

bool Node::is_silent(FaceId face) const { return state_->liveness.is_silent(face); }

std::size_t Node::faces() const { return state_->faces.size(); }

void Node::audit(AuditReport& report) const {
    state_->pit.audit(report);
    state_->reducer.audit(report);
    // What the node still has to do may be what makes these agree.
    if (state_->requests.empty()) state_->audit_reductions(report);
}

void Node::State::audit_reductions(AuditReport& report) const {
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    std::size_t in_reduction = 0;
    for (const tables::PitEntry* entry : entries) {
        if (!entry->in_reduction) continue;
        ++in_reduction;
        report.expect(reducer.works_on(entry->key.name), "what is being reduced is in work");
    }
    report.expect_equal(reducer.in_work(), in_reduction, "reductions with a pending requester");
}

void Node::express(RequesterId requester, wire::NameView name, wire::NameView hint,
                   Duration lifetime) {
    state_->requests.add(
        {.kind = Request::Kind::kExpress, .requester = requester, .lifetime = lifetime},
        name.value(), hint.value());
}

void Node::express_fresh(RequesterId requester, wire::NameView name, wire::NameView hint,
                         Duration lifetime) {
    state_->requests.add({.kind = Request::Kind::kExpress,
                          .requester = requester,
                          .must_be_fresh = true,
                          .lifetime = lifetime},
                         name.value(), hint.value());
}

void Node::express_to_neighbour(RequesterId requester, wire::NameView name, wire::NameView hint,
                                Duration lifetime, PacketRef roots) {
    state_->requests.add({.kind = Request::Kind::kExpress,
                          .requester = requester,
                          .to_neighbour = true,
                          .lifetime = lifetime,
                          .data = std::move(roots)},
                         name.value(), hint.value());
}

void Node::cancel(RequesterId requester, wire::NameView name) {
    state_->requests.add({.kind = Request::Kind::kCancel, .requester = requester}, name.value(),
                         {});
}

void Node::put_data(RequesterId maker, PacketRef data, bool marked) {
    state_->requests.add({.kind = Request::Kind::kPutData,
                          .requester = maker,
                          .marked = marked,
                          .data = std::move(data)},
                         {}, {});
}

void Node::offer_data(PacketRef data, wire::NameView hint, bool marked) {
    state_->requests.add(
        {.kind = Request::Kind::kOfferData, .marked = marked, .data = std::move(data)}, {},
        hint.value());
}

void Node::hold(wire::NameView name, wire::ByteView missing) {
    state_->requests.add({.kind = Request::Kind::kHold}, name.value(), missing);
}

void Node::nack(wire::NameView name, wire::NackReason reason) {
    state_->requests.add({.kind = Request::Kind::kNack, .reason = reason}, name.value(), {});
}

}  // namespace innet::forwarding
