// Contributions and sums that come, or go, ahead of the requests for them.

#include <algorithm>
#include <utility>

#include "switch_emulator/reduction/reducer_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::reduction {

namespace {

/// Where contributions are lost, some sums come ahead and others do not.
constexpr std::uint32_t kDueAfterMissedSum = 4;

}  // namespace

bool Reducer::State::keep_offer(const wire::DataView& data, const PacketRef& packet, bool marked,
                                TimePoint now) {
    const auto name = ReductionName::parse(data.name());
    OperandUse* use = name ? rules.use_of(*name) : nullptr;
    if (use == nullptr || data.tensor_error()) return false;
    use->due -= std::min(use->due, 1U);
    const OperandUse::Segment segment(name->sequence(), name->segment());
    if (segment <= use->latest_of(name->segment())) {
        // It was requested before it arrived, and is the answer or crossed it.
        if (use->given_up == segment) requests.lengthen_patience();
        return false;
    }
    PacketRef kept = packet.slice_of(data.whole());
    // It may stay longer than an operand in a slot, whose buffers are counted.
    if (pins_much(kept)) kept = pool.copy_of(kept);
    if (!offers.add(*name, job_table.of(name->group()), {std::move(kept), marked}, now)) {
        return false;
    }
    ++counters.contributions_ahead;
    make_ahead(*name, *use, now);
    return true;
}

void Reducer::State::make_ahead(const ReductionName& operand, const OperandUse& use,
                                TimePoint now) {
    InstalledRule* rule = use.rule_ahead;
    if (rule == nullptr || !rule->goes_ahead(operand.segment()) || slots.full() ||
        signer_of(*rule) == nullptr || !has_offers_for_all(operand, *rule) ||
        !rule->sums_ahead_of(operand.segment()).take_turn(operand.sequence())) {
        return;
    }
    OperandNameBuffer buffer;
    const auto name =
        ReductionName::parse(operand.operand(rule->rule.interval.view().value(), buffer));
    const std::uint32_t place = name ? take_slot(*name, *rule) : kNoPlace;
    if (place == kNoPlace) return;
    slots[place].goes_ahead = true;
    take_offers(place);
    note_offered(*name, *rule, now);
    add_offered(place, *name);
}

// From the one that was missing last: the offers for one sum together look at each a few times.
bool Reducer::State::has_offers_for_all(const ReductionName& operand, InstalledRule& rule) {
    const ContributorSet contributors = operand.contributors();
    const auto count = static_cast<std::uint32_t>(rule.operands());
    OperandNameBuffer buffer;
    for (std::uint32_t looked_at = 0; looked_at < count; ++looked_at) {
        const wire::ByteView interval = rule.operand_interval(rule.awaited);
        if (contributors.intersects(interval) &&
            !offers.has(operand.operand_hash(rule.operand_hashers[rule.awaited]).name,
                        operand.operand(interval, buffer))) {
            return false;
        }
        rule.awaited = (rule.awaited + 1) % count;
    }
    return true;
}

void Reducer::State::take_offers(std::uint32_t place) {
    offered.clear();
    if (offers.empty()) return;
    const Slot& slot = slots[place];
    const ReductionName& name = slots.name(place);
    OperandNameBuffer buffer;
    for (std::uint32_t operand = 0; operand < slot.operands.size(); ++operand) {
        if (!slot.operands[operand].takes_part) continue;
        const wire::ByteView interval = slot.rule->operand_interval(operand);
        const auto taken = offers.take(name.operand_hash(slot.rule->operand_hashers[operand]).name,
                                       name.operand(interval, buffer));
        const auto data = taken ? wire::DataView::parse(taken->packet.bytes()) : std::nullopt;
        if (data) offered.push_back({operand, keep(*data, taken->packet), taken->marked});
    }
}

void Reducer::State::note_offered(const ReductionName& name, const InstalledRule& rule,
                                  TimePoint now) {
    for (const Given& there : offered) {
        requests.note_unasked(
            rule.rule.operands[there.operand].hint, rule.operand_interval(there.operand),
            name.operand_hash(rule.operand_hashers[there.operand], rule.shards()), now);
    }
}

void Reducer::State::add_offered(std::uint32_t place, const ReductionName& name) {
    for (Given& there : offered) {
        operand_arrived(place, there.operand, std::move(there.arrived), there.marked);
        if (slots.find(name) != place) break;  // they disagree, and the sum has ended
    }
    offered.clear();
}

// A contribution comes just before the first request for its sum. A sum of several comes after it,
// as that request does not wait for all ranks below.
bool Reducer::State::may_come(const Slot& slot, std::uint32_t operand) const {
    const bool is_sum = !is_contribution(slot.rule->operand_interval(operand));
    return slot.rule->uses[operand]->due == 0 && (is_sum || !offered.empty());
}

void Reducer::State::send_ahead(std::uint32_t place, PacketRef data) {
    if (!data) return;  // as `answer` says: another node evaluates it when it is requested
    const ReductionName& name = slots.name(place);
    const Slot& slot = slots[place];
    INNET_LOG(kReduction, "sends ahead " << name.whole().to_uri());
    ++counters.reductions_completed;
    ++counters.sums_ahead;
    sent_ahead.add(name, slots.job(place), {data, slot.marked}, last_now);
    forwarder.offer_data(std::move(data), slot.rule->place_of(name.segment()).view(), slot.marked);
}

bool Reducer::State::answer_again(const ReductionName& name, InstalledRule& rule) {
    if (!rule.goes_ahead(name.segment()) || sent_ahead.empty()) return false;
    auto sent = sent_ahead.take(name.hash(), name.whole());
    if (!sent) return false;
    rule.sums_ahead_of(name.segment()).on_requested(name.sequence());
    forwarder.put_data(RequesterId::kReducer, std::move(sent->packet), sent->marked);
    return true;
}

void Reducer::State::end_patience(TimePoint now) {
    given_up.clear();
    requests.end_patience(now, given_up);
    for (const std::uint32_t request : given_up) {
        for (const Waiter& waiter : requests.waiters(request)) {
            if (waiter.kind != Waiter::Kind::kSlot) continue;
            const InstalledRule& rule = *slots[waiter.place].rule;
            const ReductionName& sum = slots.name(waiter.place);
            OperandUse& use = *rule.uses[waiter.operand];
            use.given_up = {sum.sequence(), sum.segment()};
            if (use.due == 0) requests.shorten_patience();
            use.due =
                is_contribution(rule.operand_interval(waiter.operand)) ? 1 : kDueAfterMissedSum;
        }
    }
}

}  // namespace innet::reduction
