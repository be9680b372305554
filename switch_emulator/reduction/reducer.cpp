#include "switch_emulator/reduction/reducer.hpp"

#include <algorithm>
#include <stdexcept>

#include "switch_emulator/reduction/reducer_state.hpp"

namespace innet::reduction {

Reducer::Reducer(ReducerOptions options, const jobs::JobTable& jobs, Forwarder& forwarder,
                 PacketPool& pool, security::Signer* signer)
    : state_(std::make_unique<State>(std::move(options), jobs, forwarder, pool, signer)) {}

Reducer::~Reducer() = default;

void Reducer::install(const Rule& rule) {
    State& state = *state_;
    const InstalledRule* before = state.rules.find(rule.group, rule.interval);
    const bool same_expression = before != nullptr && before->same_expression(rule);
    const InstalledRule& installed = state.install(rule);
    state.divide_slots();
    if (same_expression) {
        state.request_at_new_hints(installed, state.last_now);
    } else {
        state.refuse_all_of(installed, wire::NackReason::kNoRule);
    }
}

void Reducer::remove_group(const wire::Name& group) {
    for (const InstalledRule* rule : state_->rules.of_group(group)) {
        state_->refuse_all_of(*rule, wire::NackReason::kNoRule);
        state_->rules.remove(*rule);
    }
    state_->offers.drop_group(group.view());
    state_->sent_ahead.drop_group(group.view());
    set_group_signer(group, nullptr);
    state_->divide_slots();
}

std::vector<Rule> Reducer::rules() const { return state_->rules.all(); }

void Reducer::set_signer(security::Signer* signer) { state_->parts[jobs::kNoJob].signer = signer; }

void Reducer::set_group_signer(const wire::Name& group,
                               const std::shared_ptr<security::Signer>& signer) {
    std::erase_if(state_->group_signers, [&](const auto& known) { return known.first == group; });
    if (signer) state_->group_signers.emplace_back(group, signer);
    for (InstalledRule* rule : state_->rules.of_group(group)) rule->signer = signer;
}

security::Signer* Reducer::signer_of(wire::NameView name, wire::NameView key_name) const {
    for (const auto& [group, signer] : state_->group_signers) {
        if (signer->key_name() == key_name && group.view().is_prefix_of(name)) return signer.get();
    }
    for (const jobs::JobId job : {state_->job_table.of(name), jobs::kNoJob}) {
        security::Signer* signer = state_->parts[job].signer;
        if (signer != nullptr && signer->key_name() == key_name) return signer;
    }
    return nullptr;
}

void Reducer::install_job(const jobs::Job& job, security::Signer* signer) {
    for (const InstalledRule* rule : state_->rules.of_job(jobs::kNoJob)) {
        if (job.prefix.view().is_prefix_of(rule->rule.group.view())) {
            throw std::invalid_argument("there are rules of " + job.prefix.view().to_uri() +
                                        " already; install a job before its rules");
        }
    }
    state_->parts[job.id].signer = signer;
    state_->divide_slots();
}

void Reducer::remove_job(jobs::JobId job) {
    for (const InstalledRule* rule : state_->rules.of_job(job)) {
        state_->refuse_all_of(*rule, wire::NackReason::kNoRule);
        state_->rules.remove(*rule);
    }
    state_->offers.drop_job(job);
    state_->sent_ahead.drop_job(job);
    std::erase_if(state_->group_signers, [&](const auto& known) {
        return state_->job_table.of(known.first.view()) == job;
    });
    state_->parts[job] = {};
    state_->divide_slots();
}

JobSlots Reducer::job_slots(jobs::JobId job) const {
    const jobs::WeightedShares& shares = state_->slots.shares();
    JobSlots slots = state_->parts[job].counters;
    slots.in_use = shares.used(job);
    slots.guaranteed = shares.guaranteed(job);
    return slots;
}

void Reducer::set_rule_source(RuleSource* source) { state_->rule_source = source; }

Admission Reducer::admit(wire::NameView name, bool allow_fallback, TimePoint now) {
    state_->last_now = now;
    const auto parsed = ReductionName::parse(name);
    if (!parsed) return Admission::kNoRule;
    const Admission admission = state_->admit(*parsed, allow_fallback, now);
    state_->use_credit(now);
    return admission;
}

void Reducer::abandon(wire::NameView name) {
    State& state = *state_;
    const auto parsed = ReductionName::parse(name);
    if (!parsed) return;
    const std::uint32_t slot = state.slots.find(*parsed);
    const std::uint32_t parked = state.parked.find(*parsed);
    if (slot != kNoPlace) state.release_slot(slot);
    if (parked != kNoPlace) state.release_parked(parked);
    if (slot != kNoPlace || parked != kNoPlace) ++state.counters.reductions_abandoned;
}

bool Reducer::may_use(wire::NameView name) const {
    const auto parsed = ReductionName::parse(name);
    if (!parsed || state_->rules.use_of(*parsed) == nullptr) return false;
    const InstalledRule* own = state_->rules.find(*parsed);
    return own == nullptr || !own->rule.primary;
}

bool Reducer::on_offer(const wire::DataView& data, const PacketRef& packet, bool marked,
                       TimePoint now) {
    State& state = *state_;
    state.last_now = now;
    const std::uint32_t request = state.requests.find(data.name());
    if (request == kNoPlace) return state.keep_offer(data, packet, marked, now);
    if (!state.requests.awaits_offer(request)) return false;
    ++state.counters.contributions_ahead;
    on_data(data, packet, marked, now);
    return true;
}

void Reducer::on_data(const wire::DataView& data, const PacketRef& packet, bool marked,
                      TimePoint now) {
    State& state = *state_;
    state.last_now = now;
    const std::uint32_t request = state.requests.find(data.name());
    if (request == kNoPlace) return;
    state.take_answered(request, data.content().size() + packet.virtual_bytes(), marked, now);
    if (data.tensor_error()) {
        state.forward_error(data);
        return;
    }
    // Slots first: a slot that is about to end is then free for a parked reduction.
    for (const Waiter& waiter : state.answered) {
        if (waiter.kind == Waiter::Kind::kSlot) {
            state.operand_arrived(waiter.place, waiter.operand, state.keep(data, packet), marked);
        }
    }
    for (const Waiter& waiter : state.answered) {
        if (waiter.kind == Waiter::Kind::kParked) {
            state.resume(waiter.place, state.keep(data, packet), marked, now);
        }
    }
    state.use_credit(now);
}

void Reducer::on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) {
    State& state = *state_;
    state.last_now = now;
    const std::uint32_t request = state.requests.find(name);
    // A duplicate nonce says nothing about the operand: the retransmission timer repeats it.
    if (request == kNoPlace || reason == wire::NackReason::kDuplicate) return;
    if (state.evaluate_here(request, now)) return;
    // Congestion passes, and there is no other way to this operand.
    if (reason == wire::NackReason::kCongestion) return;
    const auto waiters = state.requests.waiters(request);
    const std::vector<Waiter> refused(waiters.begin(), waiters.end());
    for (const Waiter& waiter : refused) state.refuse(waiter, reason);
}

void Reducer::on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) {
    State& state = *state_;
    state.last_now = now;
    const std::uint32_t request = state.requests.find(name);
    if (request == kNoPlace) return;
    state.requests.on_held(request, now);
    state.announce_late(request, LateLabel(missing));
}

void Reducer::on_timer(TimePoint now) {
    State& state = *state_;
    state.last_now = now;
    state.lost.clear();
    state.requests.collect(now, state.lost);
    for (const LostRequest& lost : state.lost) state.repeat_lost(lost, now);
    state.end_patience(now);
    state.offers.drop_expired(now);
    state.sent_ahead.drop_expired(now);
    state.use_credit(now);
}

TimePoint Reducer::next_deadline() const {
    // Whatever ended a request: the next one that waited for its room leaves at once.
    const State& state = *state_;
    return state.requests.can_use_credit(state.last_now)
               ? state.last_now
               : std::min({state.requests.next_deadline(), state.offers.next_deadline(),
                           state.sent_ahead.next_deadline()});
}

const ReducerCounters& Reducer::counters() const {
    state_->counters.flows = state_->requests.flow_count();
    return state_->counters;
}

}  // namespace innet::reduction
