#include "switch_emulator/reduction/reducer_state.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "transport/debug_log.hpp"
#include "transport/wire/text.hpp"

namespace innet::reduction {

namespace {

/// Parked reductions cost little; so a few times as many as slots may wait, and a fair number on a
/// node with next to no slots.
std::size_t parked_capacity(std::uint32_t slots) {
    constexpr std::size_t kPerSlot = 4;
    constexpr std::size_t kAtLeast = 64;
    return slots == 0 ? 0 : std::max(kPerSlot * slots, kAtLeast);
}

/// Bytes of buffers that operands may keep alive before they are copied into buffers of their own
/// size: one received buffer can hold many packets, and a single operand keeps all of it.
std::size_t pinned_limit_bytes(std::uint32_t slots) {
    constexpr std::size_t kPerSlot = 16384;
    return kPerSlot * slots;
}

/// A switch of many ranks gets their contributions to several operations before the sums begin.
std::size_t offers_capacity(std::uint32_t slots) { return slots == 0 ? 0 : 1024; }

using wire::text_of;

wire::TensorErrorCode error_code(std::uint64_t value) {
    switch (value) {
        case static_cast<std::uint64_t>(wire::TensorErrorCode::kMismatch):
            return wire::TensorErrorCode::kMismatch;
        case static_cast<std::uint64_t>(wire::TensorErrorCode::kOverflow):
            return wire::TensorErrorCode::kOverflow;
        case static_cast<std::uint64_t>(wire::TensorErrorCode::kFailed):
            return wire::TensorErrorCode::kFailed;
        default:
            return wire::TensorErrorCode::kAborted;
    }
}

}  // namespace

Reducer::State::State(ReducerOptions options_, const jobs::JobTable& job_table_,
                      Forwarder& forwarder_, PacketPool& pool_, security::Signer* signer)
    : options(std::move(options_)),
      job_table(job_table_),
      forwarder(forwarder_),
      pool(pool_),
      requests(forwarder_, options),
      results(pool_),
      offers(offers_capacity(options.slots), pinned_limit_bytes(options.slots),
             options.interest_lifetime),
      sent_ahead(offers_capacity(options.slots), pinned_limit_bytes(options.slots),
                 options.interest_lifetime),
      slots(options.slots),
      parked(parked_capacity(options.slots)) {
    parts[jobs::kNoJob].signer = signer;
}

// Starting.

InstalledRule* Reducer::State::rule_for(const ReductionName& name) {
    InstalledRule* known = rules.find(name);
    return known != nullptr ? known : get_rule(name.group(), name.interval());
}

const InstalledRule* Reducer::State::rule_for(const wire::Name& group, const wire::Name& interval) {
    const InstalledRule* known = rules.find(group, interval);
    return known != nullptr ? known : get_rule(group.view(), interval.view().value());
}

InstalledRule* Reducer::State::get_rule(wire::NameView group, wire::ByteView interval) {
    if (rule_source == nullptr) return nullptr;
    const auto got =
        rule_source->rule_for(group, wire::NameView::trusted(interval).component(0).value);
    if (!got) return nullptr;
    InstalledRule& installed = install(*got);
    divide_slots();
    return &installed;
}

InstalledRule& Reducer::State::install(const Rule& rule) {
    InstalledRule& installed = rules.install(rule, job_table.of(rule.group.view()));
    const auto signer = std::ranges::find_if(
        group_signers, [&](const auto& known) { return known.first == rule.group; });
    installed.signer = signer == group_signers.end() ? nullptr : signer->second;
    return installed;
}

Admission Reducer::State::admit(const ReductionName& name, bool allow_fallback, TimePoint now) {
    InstalledRule* rule = rule_for(name);
    if (rule == nullptr || signer_of(*rule) == nullptr || !(rule->rule.primary || allow_fallback) ||
        !rule->has_part_in(name.contributors())) {
        return Admission::kNoRule;
    }
    if (answer_again(name, *rule)) return Admission::kAccepted;
    if (const std::uint32_t place = slots.find(name); place != kNoPlace) {
        for (const SlotOperand& operand : slots[place].operands) {
            if (operand.late) repeat_hold(name, operand.request);
        }
        return Admission::kAccepted;
    }
    if (const std::uint32_t place = parked.find(name); place != kNoPlace) {
        // Started before it is unparked, so that the awaited operand is not requested again.
        if (!make_room_for_parked(rule->job) ||
            !start(name, *rule, parked[place].allow_fallback, nullptr, now)) {
            repeat_hold(name, parked[place].request);
        } else {
            release_parked(place);
        }
        return Admission::kAccepted;
    }
    if (make_room(rule->job) && start(name, *rule, allow_fallback, nullptr, now)) {
        return Admission::kAccepted;
    }
    count_no_slot(rule->job);
    return Admission::kNoSlot;
}

bool Reducer::State::start(const ReductionName& name, const InstalledRule& rule,
                           bool allow_fallback, Given* given, TimePoint now) {
    const std::uint32_t place = take_slot(name, rule);
    if (place == kNoPlace) return false;
    Slot& slot = slots[place];
    slot.allow_fallback = allow_fallback;
    take_offers(place);
    const auto is_there = [&](std::uint32_t operand) {
        return (given != nullptr && given->operand == operand) ||
               std::ranges::find(offered, operand, &Given::operand) != offered.end();
    };
    for (std::uint32_t operand = 0; operand < rule.operands(); ++operand) {
        if (!slot.operands[operand].takes_part || is_there(operand)) continue;
        if (!request_operand(place, operand, now)) {
            offered.clear();
            release_slot(place);
            return false;
        }
    }
    note_offered(name, rule, now);
    if (given != nullptr) offered.push_back(std::move(*given));
    add_offered(place, name);
    return true;
}

std::uint32_t Reducer::State::take_slot(const ReductionName& name, const InstalledRule& rule) {
    const std::uint32_t place = slots.add(name, rule.job);
    if (place == kNoPlace) return kNoPlace;
    Slot& slot = slots[place];
    slot.rule = &rule;
    slot.operands.resize(rule.operands());
    const ContributorSet contributors = slots.name(place).contributors();
    for (std::uint32_t operand = 0; operand < rule.operands(); ++operand) {
        slot.operands[operand].takes_part = contributors.intersects(rule.operand_interval(operand));
        if (slot.operands[operand].takes_part) ++slot.missing;
    }
    INNET_LOG(kReduction, "starts " << name.whole().to_uri());
    ++counters.reductions_started;
    if (!rule.rule.primary) ++counters.fallback_evaluations;
    counters.slots_in_use = slots.size();
    counters.slots_in_use_max = std::max(counters.slots_in_use_max, counters.slots_in_use);
    std::uint64_t& job_max = parts[rule.job].counters.in_use_max;
    job_max = std::max<std::uint64_t>(job_max, slots.shares().used(rule.job));
    return place;
}

bool Reducer::State::request_operand(std::uint32_t place, std::uint32_t operand, TimePoint now) {
    Slot& slot = slots[place];
    const ReductionName& name = slots.name(place);
    OperandNameBuffer buffer;
    const std::uint32_t request = requests.request(
        name.operand(slot.rule->operand_interval(operand), buffer),
        name.operand_hash(slot.rule->operand_hashers[operand], slot.rule->shards()),
        slot.rule->operand_interval(operand), slot.rule->rule.operands[operand].hint,
        {Waiter::Kind::kSlot, place, operand}, may_come(slot, operand), now);
    if (request == kNoPlace) return false;
    slot.operands[operand].request = request;
    if (requests.late(request)) {
        mark_late(place, operand);
        repeat_hold(name, request);
    }
    return true;
}

// While operands are awaited.

void Reducer::State::take_answered(std::uint32_t request, std::size_t answer_bytes, bool marked,
                                   TimePoint now) {
    requests.take_answered(request, answer_bytes, marked, answered, now);
    // At once for all: the request's place may be taken again while they are served.
    for (const Waiter& waiter : answered) request_of(waiter) = kNoPlace;
}

ArrivedOperand Reducer::State::keep(const wire::DataView& data, const PacketRef& packet) {
    const wire::ByteView content = data.content();
    PacketRef share = packet.slice_of(content);
    if (pins_much(share) &&
        pinned_bytes + share.pinned_bytes() > pinned_limit_bytes(options.slots)) {
        share = pool.copy_of(share);
    }
    PacketRef earlier_calls;
    if (const wire::ByteView stated = data.earlier_calls(); !stated.empty()) {
        earlier_calls = pool.copy_of(stated.first(std::min(stated.size(), wire::kMaxEarlierCalls)));
    }
    return {std::move(share),         data.tensor_elements(),   data.final_segment(),
            std::move(earlier_calls), data.segments_received(), data.sum_carry().value_or(0)};
}

void Reducer::State::operand_arrived(std::uint32_t place, std::uint32_t operand,
                                     ArrivedOperand arrived, bool marked) {
    Slot& slot = slots[place];
    INNET_LOG(kReduction, slots.name(place).whole().to_uri()
                              << ": operand " << operand << " arrived");
    clear_late(place, operand);
    OperandUse& use = *slot.rule->uses[operand];
    const ReductionName& reduction = slots.name(place);
    auto& latest = use.latest_of(reduction.segment());
    latest = std::max(
        latest, std::optional(OperandUse::Segment(reduction.sequence(), reduction.segment())));
    pinned_bytes += arrived.content.pinned_bytes();
    slot.compares_calls |= static_cast<bool>(arrived.earlier_calls);
    slot.operands[operand].arrived = std::move(arrived);
    slot.marked |= marked;
    --slot.missing;
    if (const auto difference = find_disagreement(slots.name(place), slot, operand)) {
        ++counters.mismatches;
        finish_with_error({Waiter::Kind::kSlot, place, operand}, wire::TensorErrorCode::kMismatch,
                          *difference);
    } else if (slot.missing == 0) {
        finish(place);
    }
}

void Reducer::State::resume(std::uint32_t parked_place, ArrivedOperand arrived, bool marked,
                            TimePoint now) {
    const Parked waiting = parked[parked_place];
    Given given{waiting.operand, std::move(arrived), marked};
    if (make_room_for_parked(waiting.rule->job) &&
        start(parked.name(parked_place), *waiting.rule, waiting.allow_fallback, &given, now)) {
        release_parked(parked_place);
    } else {
        count_no_slot(waiting.rule->job);
        refuse({Waiter::Kind::kParked, parked_place, 0}, wire::NackReason::kNoSlot);
    }
}

void Reducer::State::repeat_lost(const LostRequest& lost_request, TimePoint now) {
    const auto request = static_cast<std::uint32_t>(lost_request.key);
    INNET_LOG(kReduction, "requests an operand again");
    if (lost_request.cause != LossCause::kRefresh) ++counters.operand_retransmissions;
    if (lost_request.cause == LossCause::kTimeout &&
        lost_request.consecutive_timeouts >= options.timeouts_before_self_evaluation) {
        if (evaluate_here(request, now)) return;
        // The late producer may have failed: the reducer sends no more Holds to the requesters.
        set_late(request, {});
    }
    requests.repeat(request, now);
}

bool Reducer::State::evaluate_here(std::uint32_t request, TimePoint now) {
    if (options.own_name.view().empty() || requests.hint(request) == options.own_name) return false;
    const Waiter& waiter = requests.waiters(request).front();
    const Rule& rule = rule_of(waiter).rule;
    if (rule_for(rule.group, rule.operands[waiter.operand].interval) == nullptr) return false;
    INNET_LOG(kReduction, "evaluates an operand here: its node does not answer");
    redirect(request, options.own_name, now);
    return true;
}

void Reducer::State::request_at_new_hints(const InstalledRule& rule, TimePoint now) {
    const auto redirect_if_changed = [&](std::uint32_t request, std::uint32_t operand) {
        const wire::Name& hint = rule.rule.operands[operand].hint;
        if (request != kNoPlace && !(requests.hint(request) == hint)) redirect(request, hint, now);
    };
    for (const std::uint32_t place :
         slots.select([&](const Slot& slot) { return slot.rule == &rule; })) {
        for (std::uint32_t operand = 0; operand < rule.operands(); ++operand) {
            redirect_if_changed(slots[place].operands[operand].request, operand);
        }
    }
    for (const std::uint32_t place :
         parked.select([&](const Parked& waiting) { return waiting.rule == &rule; })) {
        redirect_if_changed(parked[place].request, parked[place].operand);
    }
}

void Reducer::State::use_credit(TimePoint now) {
    kept_back.clear();
    requests.use_credit(now, kept_back);
    for (const std::uint32_t request : kept_back) announce_late(request, requests.label(request));
}

// Lateness.

void Reducer::State::set_late(std::uint32_t request, LateLabel label) {
    requests.set_late(request, label);
    for (const Waiter& waiter : requests.waiters(request)) {
        if (waiter.kind == Waiter::Kind::kSlot) mark_late(waiter.place, waiter.operand);
    }
}

void Reducer::State::announce_late(std::uint32_t request, LateLabel label) {
    set_late(request, label);
    for (const Waiter& waiter : requests.waiters(request)) repeat_hold(name_of(waiter), request);
}

void Reducer::State::redirect(std::uint32_t request, const wire::Name& hint, TimePoint now) {
    requests.redirect(request, hint, now);
    for (const Waiter& waiter : requests.waiters(request)) {
        if (waiter.kind == Waiter::Kind::kSlot) clear_late(waiter.place, waiter.operand);
    }
}

void Reducer::State::mark_late(std::uint32_t place, std::uint32_t operand) {
    Slot& slot = slots[place];
    if (slot.operands[operand].late) return;
    slot.operands[operand].late = true;
    if (++slot.late == 1) late_slots.add(place, slots.job(place));
}

void Reducer::State::clear_late(std::uint32_t place, std::uint32_t operand) {
    Slot& slot = slots[place];
    if (!slot.operands[operand].late) return;
    slot.operands[operand].late = false;
    if (--slot.late == 0) late_slots.remove(place);
}

void Reducer::State::repeat_hold(const ReductionName& name, std::uint32_t request) {
    const wire::ByteView label = requests.label(request).bytes();
    if (!label.empty()) forwarder.hold(name.whole(), label);
}

// Ending.

security::Signer* Reducer::State::signer_of(const InstalledRule& rule) const {
    if (rule.signer) return rule.signer.get();
    security::Signer* own = parts[rule.job].signer;
    return own != nullptr ? own : parts[jobs::kNoJob].signer;
}

void Reducer::State::finish(std::uint32_t place) {
    const ReductionName& name = slots.name(place);
    ResultBuilder::Outcome outcome =
        results.value(name, slots[place], *signer_of(*slots[place].rule));
    if (outcome.carries) ++counters.overflows;
    if (outcome.status == ReduceStatus::kTooLarge) {
        finish_with_error({Waiter::Kind::kSlot, place, 0}, wire::TensorErrorCode::kOverflow,
                          too_large_text(name));
        return;
    }
    if (slots[place].goes_ahead) {
        send_ahead(place, std::move(outcome.data));
    } else {
        answer(name, std::move(outcome.data), slots[place].marked);
    }
    release_slot(place);
}

void Reducer::State::finish_with_error(const Waiter& waiter, wire::TensorErrorCode code,
                                       std::string_view text) {
    const bool marked = waiter.kind == Waiter::Kind::kSlot && slots[waiter.place].marked;
    security::Signer& signer = *signer_of(rule_of(waiter));
    answer(name_of(waiter), results.error(name_of(waiter), code, text, signer), marked);
    release(waiter);
}

void Reducer::State::forward_error(const wire::DataView& data) {
    for (const Waiter& waiter : answered) {
        finish_with_error(waiter, error_code(*data.tensor_error()), text_of(data.content()));
    }
}

void Reducer::State::answer(const ReductionName& name, PacketRef data, bool marked) {
    if (!data) {
        // Too large, or the key must not sign any more: another node may still evaluate it.
        forwarder.nack(name.whole(), wire::NackReason::kNoSlot);
        return;
    }
    INNET_LOG(kReduction, "completes " << name.whole().to_uri());
    ++counters.reductions_completed;
    forwarder.put_data(RequesterId::kReducer, std::move(data), marked);
}

void Reducer::State::refuse(const Waiter& waiter, wire::NackReason reason) {
    INNET_LOG(kReduction, "refuses " << name_of(waiter).whole().to_uri());
    forwarder.nack(name_of(waiter).whole(), reason);
    release(waiter);
}

void Reducer::State::refuse_all_of(const InstalledRule& rule, wire::NackReason reason) {
    for (const std::uint32_t place :
         slots.select([&](const Slot& slot) { return slot.rule == &rule; })) {
        refuse({Waiter::Kind::kSlot, place, 0}, reason);
    }
    for (const std::uint32_t place :
         parked.select([&](const Parked& waiting) { return waiting.rule == &rule; })) {
        refuse({Waiter::Kind::kParked, place, 0}, reason);
    }
}

void Reducer::State::release(const Waiter& waiter) {
    if (waiter.kind == Waiter::Kind::kSlot) {
        release_slot(waiter.place);
    } else {
        release_parked(waiter.place);
    }
}

void Reducer::State::release_slot(std::uint32_t place) {
    Slot& slot = slots[place];
    for (std::uint32_t operand = 0; operand < slot.operands.size(); ++operand) {
        const SlotOperand& released = slot.operands[operand];
        if (released.arrived) pinned_bytes -= released.arrived->content.pinned_bytes();
        if (released.request != kNoPlace) {
            requests.leave(released.request, {Waiter::Kind::kSlot, place, operand});
        }
    }
    if (slot.late > 0) late_slots.remove(place);
    slots.remove(place);
    counters.slots_in_use = slots.size();
}

void Reducer::State::release_parked(std::uint32_t place) {
    const Parked& waiting = parked[place];
    if (waiting.request != kNoPlace) {
        requests.leave(waiting.request, {Waiter::Kind::kParked, place, waiting.operand});
    }
    parked.remove(place);
}

const ReductionName& Reducer::State::name_of(const Waiter& waiter) const {
    return waiter.kind == Waiter::Kind::kSlot ? slots.name(waiter.place)
                                              : parked.name(waiter.place);
}

const InstalledRule& Reducer::State::rule_of(const Waiter& waiter) {
    return waiter.kind == Waiter::Kind::kSlot ? *slots[waiter.place].rule
                                              : *parked[waiter.place].rule;
}

std::uint32_t& Reducer::State::request_of(const Waiter& waiter) {
    return waiter.kind == Waiter::Kind::kSlot ? slots[waiter.place].operands[waiter.operand].request
                                              : parked[waiter.place].request;
}

}  // namespace innet::reduction
