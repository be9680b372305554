#include "transport/endpoint/endpoint.hpp"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "transport/endpoint/fetcher.hpp"
#include "transport/endpoint/operation_state.hpp"
#include "transport/object/attached_roots.hpp"
#include "transport/object/object_keepers.hpp"
#include "transport/object/object_publisher.hpp"
#include "transport/publish/publisher.hpp"
#include "transport/publish/served_packets.hpp"

namespace innet {

namespace {

/// Fetches of keepers and of groups have numbers that no caller has.
constexpr OperationId kFirstOwnFetch = OperationId{1} << 63U;

/// An Interest's bytes beside its name and the roots attached to it, with room for its hint.
constexpr std::size_t kRequestOverhead = 256;

/// HopLimit of an Interest that its receiver may not forward: an answer goes no further than back.
constexpr std::uint8_t kFromNeighbour = 1;

/// Why a fetch cannot be done; nothing when it can.
std::optional<std::string> refusal(const FetchSpec& spec) {
    const Segmentation& cut = spec.segmentation;
    if (spec.targets.empty()) return "a fetch needs at least one target";
    if (cut.segment_bytes == 0 || cut.blocks == 0) return "a fetch needs a segmentation";
    if (spec.first_segment > spec.end_segment || spec.end_segment > cut.segments() ||
        spec.end_segment > kMaxSegments) {
        return "segments " + std::to_string(spec.first_segment) + " to " +
               std::to_string(spec.end_segment) + " do not exist: there are " +
               std::to_string(cut.segments());
    }
    std::uint64_t bytes = 0;
    if (spec.first_segment < spec.end_segment) {
        bytes = cut.offset_of(spec.end_segment - 1) + cut.size_of(spec.end_segment - 1) -
                cut.offset_of(spec.first_segment);
    }
    if (spec.into.size() != bytes) {
        return "a buffer of " + std::to_string(spec.into.size()) + " bytes for " +
               std::to_string(bytes) + " bytes of " + spec.targets[0].name.view().to_uri();
    }
    if (!spec.sizes.empty() && spec.sizes.size() != spec.end_segment - spec.first_segment) {
        return "room for " + std::to_string(spec.sizes.size()) + " sizes of " +
               std::to_string(spec.end_segment - spec.first_segment) + " segments";
    }
    return std::nullopt;
}

std::optional<std::string> refusal(const OperationSpec& spec, const Publisher& publisher) {
    if (spec.publication) {
        if (auto why = publisher.refusal(*spec.publication)) return why;
    }
    for (const FetchSpec& fetch : spec.fetches) {
        if (auto why = refusal(fetch)) return why;
        if (spec.in_place && (!spec.publication || !spec.publication->segment_ends.empty() ||
                              fetch.segmentation != spec.publication->segmentation)) {
            return "an operation in place needs a publication with the segmentation of its fetches";
        }
    }
    return std::nullopt;
}

/// Whether the tensor is sent ahead of the request for the sum.
bool is_for_offer(const OperationState& operation, const OperationSpec& spec) {
    if (!spec.publication || !spec.publication->offered || operation.fetches.empty()) return false;
    const FetchSpec& fetch = operation.fetches.front();
    return fetch.segmentation == spec.publication->segmentation && fetch.first_segment == 0 &&
           fetch.end_segment == fetch.segmentation.segments();
}

/// Whether no result overwrites the published tensor. A caller may not have said that one does.
bool lands_beside(const OperationState& operation, const OperationSpec& spec) {
    const std::span<const std::uint8_t> tensor = spec.publication->tensor;
    return !spec.in_place && std::ranges::none_of(operation.fetches, [&](const FetchSpec& fetch) {
        const std::less<const std::uint8_t*> before;
        return before(fetch.into.data(), tensor.data() + tensor.size()) &&
               before(tensor.data(), fetch.into.data() + fetch.into.size());
    });
}

}  // namespace

struct Endpoint::State final : KeeperFetches {
    State(EndpointOptions options_, const wire::Name& own_name_, Forwarder& forwarder,
          PacketPool& pool_, security::Signer& signer)
        : options(options_),
          own_name(own_name_),
          publisher(options.virtual_scale, forwarder, pool_, signer),
          objects(options.virtual_scale, options.hasher, forwarder, pool_),
          keepers(objects, *this),
          fetcher(options, own_name, forwarder, publisher, counters),
          pool(pool_) {}

    EndpointOptions options;
    wire::Name own_name;
    mutable EndpointCounters counters;
    Publisher publisher;
    ObjectPublisher objects;
    ObjectKeepers keepers;
    ServedPackets served;
    Fetcher fetcher;
    PacketPool& pool;
    std::unordered_map<OperationId, std::unique_ptr<OperationState>> operations;
    std::unordered_map<OperationId, OperationGroup> fetch_groups;
    std::vector<OperationCompletion> completions;
    std::vector<Outcome> outcomes;  ///< kept between calls for its capacity
    TimePoint latest{};             ///< time of the latest event
    OperationId next_own_fetch = kFirstOwnFetch;
    std::vector<OperationId> waiting_requests;  ///< for the roots that are attached to them

    ObjectInterest object_interest(const wire::InterestView& interest, TimePoint at) const {
        const wire::NameView hint = interest.forwarding_hint();
        return {.name = interest.name(),
                .attached_roots = interest.attached_roots(),
                .accepts_draft = interest.accepts_draft() && interest.hop_limit() == kFromNeighbour,
                .is_for_here = hint.empty() || hint == own_name.view(),
                .now = at,
                .until = at + 2 * interest.lifetime()};
    }

    TimePoint now() const override { return latest; }
    OperationId begin_fetch(ObjectFetchSpec spec,
                            std::function<void(OperationStatus)> on_end) override;
    void end_fetch(OperationId id) override;
    OperationState& start_fetch(OperationId id, ObjectFetchSpec spec);
    bool waits_for_roots(const ObjectFetch& fetch) const;
    PacketRef roots_for(const ObjectFetch& fetch);
    void begin_request(OperationState& operation);
    void begin_waiting_requests();

    void complete_ended();
    void complete(Outcome& outcome);
    void complete_in_group(const OperationState& operation, Outcome& outcome);
    bool begin_next_stage(Outcome& outcome);
    void expire(TimePoint now);
};

/// Whatever the outcome, other ranks may still need the publication, and the caller may reuse its
/// tensor now.
void Endpoint::State::complete_ended() {
    // The next stage of an object can end at once.
    for (fetcher.take_outcomes(outcomes); !outcomes.empty(); fetcher.take_outcomes(outcomes)) {
        for (Outcome& outcome : outcomes) {
            if (begin_next_stage(outcome)) continue;
            complete(outcome);
        }
    }
    fetcher.use_room_left(latest);
}

void Endpoint::State::complete(Outcome& outcome) {
    const auto ended = operations.extract(outcome.operation->id);
    OperationState& operation = *ended.mapped();
    if (operation.on_end) return operation.on_end(outcome.status);
    if (operation.group != 0) return complete_in_group(operation, outcome);
    if (operation.publication) operation.publication->retain_all();
    operation.times.ended = latest;
    completions.push_back({operation.id, outcome.status, std::move(outcome.detail), operation.times,
                           outcome.names_late});
}

void Endpoint::State::complete_in_group(const OperationState& operation, Outcome& outcome) {
    operation.object->memory().set_end(outcome.status, std::move(outcome.detail));
    const auto found = fetch_groups.find(operation.group);
    OperationGroup& group = found->second;
    if (--group.left > 0) return;
    group.completion.times.ended = latest;
    completions.push_back(std::move(group.completion));
    fetch_groups.erase(found);
}

OperationId Endpoint::State::begin_fetch(ObjectFetchSpec spec,
                                         std::function<void(OperationStatus)> on_end) {
    const OperationId id = next_own_fetch++;
    start_fetch(id, std::move(spec)).on_end = std::move(on_end);
    return id;
}

void Endpoint::State::end_fetch(OperationId id) {
    const auto found = operations.find(id);
    if (found == operations.end()) return;
    fetcher.end(*found->second, OperationStatus::kCancelled, "cancelled");
    found->second->object.reset();  // a stage that has just ended has no next one
}

OperationState& Endpoint::State::start_fetch(OperationId id, ObjectFetchSpec spec) {
    auto owned = std::make_unique<OperationState>();
    OperationState& operation = *owned;
    operation.id = id;
    operation.deadline = spec.deadline;
    operation.times.started = latest;
    auto tagger = objects.tagger_of(spec.object.view());
    operation.object = std::make_unique<ObjectFetch>(std::move(spec), std::move(tagger));
    operation.fetches = {*operation.object->next_stage()};
    operations.emplace(id, std::move(owned));
    if (waits_for_roots(*operation.object)) {
        waiting_requests.push_back(id);
    } else {
        begin_request(operation);
    }
    return operation;
}

bool Endpoint::State::waits_for_roots(const ObjectFetch& fetch) const {
    return fetch.accepts_draft() &&
           std::ranges::any_of(fetch.attached(), [this](const wire::Name& object) {
               return objects.is_publishing(object.view());
           });
}

PacketRef Endpoint::State::roots_for(const ObjectFetch& fetch) {
    std::vector<PacketRef> roots;
    for (const wire::Name& object : fetch.attached()) {
        if (PacketRef root = objects.root_of(object)) roots.push_back(std::move(root));
    }
    const auto tagger = roots.empty() ? nullptr : objects.tagger_of(fetch.name().view());
    const std::size_t size_bytes = attached_size(roots) + fetch.name().view().value().size();
    if (!tagger || size_bytes + kRequestOverhead > fetch.max_request_bytes()) return {};
    return attach_roots(fetch.name().view(), roots, *tagger, pool);
}

void Endpoint::State::begin_request(OperationState& operation) {
    operation.to_neighbour = operation.object->accepts_draft();
    if (operation.to_neighbour) operation.attached = roots_for(*operation.object);
    fetcher.start(operation, latest);
}

void Endpoint::State::begin_waiting_requests() {
    std::erase_if(waiting_requests, [this](OperationId id) {
        const auto found = operations.find(id);
        if (found == operations.end() || found->second->ended) return true;
        if (waits_for_roots(*found->second->object)) return false;
        begin_request(*found->second);
        return true;
    });
}

bool Endpoint::State::begin_next_stage(Outcome& outcome) {
    OperationState& operation = *outcome.operation;
    if (!operation.object || outcome.status != OperationStatus::kDone) return false;
    auto stage = operation.object->next_stage();
    if (!stage) return false;
    operation.ended = false;
    operation.fetches = {std::move(*stage)};
    fetcher.start(operation, latest);
    return true;
}

void Endpoint::State::expire(TimePoint at) {
    for (const auto& [id, operation] : operations) {
        if (operation->deadline > at) continue;
        const MissingReport missing = fetcher.missing(*operation, at);
        auto status = missing.only_refusals() ? OperationStatus::kNoRoute
                                              : OperationStatus::kDeadlineExceeded;
        std::string text = missing.text();
        if (operation->object) {
            if (operation->object->forged_roots() > 0) status = OperationStatus::kUntrusted;
            const std::string root = operation->object->missing();
            if (!root.empty()) text += "; " + root;
        }
        fetcher.end(*operation, status, std::move(text), missing.names_late());
    }
}

Endpoint::Endpoint(EndpointOptions options, wire::Name own_name, Forwarder& forwarder,
                   PacketPool& pool, security::Signer& signer)
    : state_(std::make_unique<State>(options, own_name, forwarder, pool, signer)) {}

Endpoint::~Endpoint() = default;

void Endpoint::set_signer(const wire::Name& prefix, std::shared_ptr<security::Signer> signer) {
    state_->publisher.set_signer(prefix, std::move(signer));
}

void Endpoint::register_producer(const wire::Name& prefix, std::string label) {
    state_->publisher.register_producer(prefix, std::move(label));
}

void Endpoint::unregister_producer(const wire::Name& prefix) {
    state_->publisher.unregister_producer(prefix);
}

void Endpoint::end_producer(const wire::Name& prefix, std::optional<std::uint64_t> seq,
                            const std::string& why) {
    state_->publisher.end_producer(prefix, seq, why);
}

void Endpoint::fail(const FailureSpec& failure) { state_->publisher.fail(failure); }

void Endpoint::submit(OperationId id, OperationSpec spec, TimePoint now) {
    State& state = *state_;
    state.latest = now;
    auto why = refusal(spec, state.publisher);
    if (state.operations.contains(id)) why = "the operation's id is in use";
    if (why) {
        state.completions.push_back({id, OperationStatus::kAborted, std::move(*why)});
        return;
    }
    auto owned = std::make_unique<OperationState>();
    OperationState& operation = *owned;
    operation.id = id;
    operation.deadline = spec.deadline;
    operation.in_place = spec.in_place;
    operation.times.started = now;
    if (spec.publication) operation.publication = state.publisher.publish(*spec.publication);
    operation.fetches = std::move(spec.fetches);
    state.operations.emplace(id, std::move(owned));
    operation.sends_ahead = is_for_offer(operation, spec);
    if (operation.sends_ahead && lands_beside(operation, spec)) {
        operation.publication->lend_tensor();
    }
    if (operation.sends_ahead) state.publisher.answer_waiting(*spec.publication);
    state.fetcher.start(operation, now);
    // After the requests, which would else wait behind these answers in the queue of the link.
    if (spec.publication && !operation.sends_ahead) {
        state.publisher.answer_waiting(*spec.publication);
    }
    state.complete_ended();
}

void Endpoint::register_objects(const wire::Name& prefix, std::string label, MissingObject missing,
                                std::shared_ptr<security::SegmentTagger> tagger,
                                std::shared_ptr<security::Signer> root_signer) {
    register_objects(prefix,
                     {std::move(label), missing, std::move(tagger), std::move(root_signer)});
}

void Endpoint::register_objects(const wire::Name& prefix, ObjectPrefix options) {
    state_->objects.register_prefix(prefix, std::move(options));
}

void Endpoint::unregister_objects(const wire::Name& prefix) {
    state_->objects.unregister_prefix(prefix);
}

void Endpoint::publish_object(OperationId id, const ObjectSpec& spec,
                              std::shared_ptr<security::Signer> root_signer) {
    state_->objects.publish(id, spec, std::move(root_signer));
}

void Endpoint::publish_objects(OperationId id, std::span<const ObjectSpec> specs,
                               const std::shared_ptr<security::Signer>& root_signer) {
    state_->objects.publish_all(id, specs, root_signer);
}

void Endpoint::withdraw_object(const wire::Name& object) { state_->objects.withdraw(object); }

void Endpoint::publish_sealed_object(OperationId id, const SealedObjectSpec& spec,
                                     const security::Keyring& keyring) {
    state_->objects.publish_sealed(id, spec, keyring);
}

void Endpoint::expect_object(const wire::Name& object) { state_->objects.expect(object); }

PacketRef Endpoint::object_root(const wire::Name& object) const {
    return state_->objects.root_of(object);
}

std::vector<RequestedObject> Endpoint::take_requested_objects() {
    return state_->objects.take_requested();
}

void Endpoint::watch_objects(OperationId id) { state_->objects.watch_requested(id); }

void Endpoint::fetch_object(OperationId id, ObjectFetchSpec spec, TimePoint now) {
    State& state = *state_;
    state.latest = now;
    state.start_fetch(id, std::move(spec));
    state.complete_ended();
}

void Endpoint::fetch_objects(OperationId id, std::vector<ObjectFetchSpec> specs, TimePoint now) {
    State& state = *state_;
    state.latest = now;
    state.fetch_groups[id] = {
        .left = specs.size(),
        .completion = {.id = id, .detail = {}, .times = {.started = now}},
    };
    for (ObjectFetchSpec& spec : specs) {
        state.start_fetch(state.next_own_fetch++, std::move(spec)).group = id;
    }
    state.complete_ended();
}

void Endpoint::keep_objects(KeepOptions options, const security::Keyring& keyring, TimePoint now) {
    stop_keeping(options.requests, now);
    state_->keepers.add(std::move(options), keyring);
}

void Endpoint::stop_keeping(const wire::Name& requests, TimePoint now) {
    state_->latest = now;
    const auto until_its_fetches_end = state_->keepers.close(requests);
    state_->complete_ended();
}

void Endpoint::adopt_objects(const std::vector<wire::Name>& objects) {
    for (const wire::Name& object : objects) state_->objects.adopt(object);
}

void Endpoint::acknowledge_kept(const wire::Name& requests,
                                const KeepAcknowledgement& acknowledgement) {
    state_->keepers.on_acknowledged(requests, acknowledgement);
}

void Endpoint::cancel(OperationId id, TimePoint now) {
    state_->latest = now;
    if (state_->objects.cancel(id)) return;
    for (const auto& [one, operation] : state_->operations) {
        if (one != id && operation->group != id) continue;
        state_->fetcher.end(*operation, OperationStatus::kCancelled, "cancelled");
    }
    state_->complete_ended();
}

void Endpoint::abort(const wire::Name& prefix, const std::string& why, TimePoint now) {
    state_->latest = now;
    for (const auto& [id, operation] : state_->operations) {
        if (!concerns(operation->fetches, prefix)) continue;
        if (operation->publication) operation->publication->abort(why);
        state_->fetcher.end(*operation, OperationStatus::kAborted, why);
    }
    state_->objects.abort(prefix, why);
    state_->complete_ended();
}

void Endpoint::retire(const wire::Name& prefix, std::uint64_t seq) {
    state_->publisher.retire(prefix, seq);
}

void Endpoint::take_completions(std::vector<OperationCompletion>& into) {
    state_->objects.take_completions(into);
    into.insert(into.end(), std::make_move_iterator(state_->completions.begin()),
                std::make_move_iterator(state_->completions.end()));
    state_->completions.clear();
}

void Endpoint::on_timer(TimePoint now) {
    state_->latest = now;
    state_->objects.advance();
    state_->begin_waiting_requests();
    state_->objects.on_timer(now);
    state_->keepers.on_timer(now);
    state_->fetcher.on_timer(now);
    state_->expire(now);
    state_->complete_ended();
}

TimePoint Endpoint::next_deadline() const {
    if (state_->objects.busy() || !state_->waiting_requests.empty())
        return state_->latest;  // a slice of work is always due
    TimePoint deadline = std::min({state_->fetcher.next_deadline(), state_->objects.next_deadline(),
                                   state_->keepers.next_deadline()});
    for (const auto& [id, operation] : state_->operations) {
        deadline = std::min(deadline, operation->deadline);
    }
    return deadline;
}

const EndpointCounters& Endpoint::counters() const {
    state_->counters.segments_served =
        state_->publisher.segments_served() + state_->objects.segments_served();
    state_->counters.retained_bytes =
        state_->publisher.retained_bytes() + state_->objects.retained_bytes();
    state_->counters.flows = state_->fetcher.flow_count();
    return state_->counters;
}

std::vector<OperationProgress> Endpoint::describe_operations() const {
    std::vector<OperationProgress> operations;
    for (const auto& [id, operation] : state_->operations) {
        const MissingReport missing = state_->fetcher.missing(*operation, state_->latest);
        operations.push_back({id, missing.late(), missing.text()});
    }
    std::ranges::sort(operations, {}, &OperationProgress::id);
    return operations;
}

std::optional<MissingParts> Endpoint::missing(OperationId id, TimePoint now) const {
    const auto found = state_->operations.find(id);
    if (found == state_->operations.end()) return std::nullopt;
    const MissingReport report = state_->fetcher.missing(*found->second, now);
    return MissingParts{report.text(), report.names_late()};
}

bool Endpoint::serve_packets(std::vector<PacketRef> packets) {
    return state_->served.assign(std::move(packets));
}

Production Endpoint::produce(const wire::InterestView& interest, bool for_network, TimePoint now) {
    state_->latest = now;
    if (auto production = state_->objects.produce(state_->object_interest(interest, now))) {
        state_->complete_ended();
        return std::move(*production);
    }
    if (PacketRef served = state_->served.find(interest)) {
        return {.kind = Production::Kind::kData, .data = std::move(served), .missing = {}};
    }
    return state_->publisher.produce(interest.name(), for_network);
}

void Endpoint::await(const wire::InterestView& interest, TimePoint now) {
    state_->latest = now;
    if (state_->objects.await(state_->object_interest(interest, now))) {
        state_->complete_ended();
    } else {
        state_->publisher.await(interest.name(), now + interest.lifetime(), now);
    }
}

void Endpoint::forget(wire::NameView name) {
    if (!state_->objects.forget(name)) state_->publisher.forget(name);
}

void Endpoint::on_data(const wire::DataView& data, const PacketRef&, bool marked, TimePoint now) {
    state_->latest = now;
    state_->fetcher.on_data(data, marked, now);
    state_->complete_ended();
}

bool Endpoint::can_tell_digest(wire::NameView data) { return state_->fetcher.has_tag_for(data); }

const security::Sha256Digest* Endpoint::told_digest(const wire::DataView& data) {
    return state_->fetcher.digest_by_tag(data);
}

bool Endpoint::vouches_for(const wire::DataView& data) { return state_->fetcher.vouches_for(data); }

void Endpoint::on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) {
    state_->latest = now;
    state_->fetcher.on_nack(name, reason, now);
    state_->complete_ended();
}

void Endpoint::on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) {
    state_->latest = now;
    state_->fetcher.on_hold(name, missing, now);
}

void Endpoint::audit(AuditReport& report) const { state_->fetcher.audit(report); }

}  // namespace innet
