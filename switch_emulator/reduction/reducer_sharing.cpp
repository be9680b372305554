// How jobs share the slots of a Reducer, and which reductions wait without one.

#include <algorithm>
#include <array>

#include "switch_emulator/reduction/reducer_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::reduction {

void Reducer::State::divide_slots() {
    std::array<std::uint32_t, jobs::kMaxJobIds> weights{};
    for (const jobs::Job& job : job_table.all()) {
        if (rules.has_any_of(job.id)) weights[job.id] = job.weight;
    }
    const bool alone = std::ranges::all_of(weights, [](std::uint32_t weight) { return !weight; });
    weights[jobs::kNoJob] = alone || rules.has_any_of(jobs::kNoJob) ? 1 : 0;
    for (jobs::JobId job = 0; job < weights.size(); ++job) {
        slots.set_weight(job, weights[job]);
        offers.set_weight(job, weights[job]);
        sent_ahead.set_weight(job, weights[job]);
        parked.set_weight(job, weights[job]);
    }
}

bool Reducer::State::make_room(jobs::JobId job) {
    if (!slots.full()) return true;
    const jobs::WeightedShares& shares = slots.shares();
    const jobs::JobId debtor = shares.furthest_over();
    if (shares.is_below_guarantee(job)) {
        // All slots are in use and this job lacks some of its own, so another has borrowed them.
        if (!park_oldest_late(debtor)) take_slot_back(debtor);
        return true;
    }
    if (park_oldest_late(job)) return true;
    return debtor != jobs::WeightedShares::kNoneOver &&
           shares.excess(debtor) > shares.excess(job) + 1 && park_oldest_late(debtor);
}

bool Reducer::State::make_room_for_parked(jobs::JobId job) {
    if (!slots.full()) return true;
    if (!slots.shares().is_below_guarantee(job)) return false;
    take_slot_back(slots.shares().furthest_over());
    return true;
}

void Reducer::State::take_slot_back(jobs::JobId debtor) {
    const std::uint32_t late = late_slots.oldest(debtor);
    const std::uint32_t place = late != kNoPlace ? late : slots.newest(debtor);
    INNET_LOG(kReduction, "revokes slot " << place << " of job " << debtor);
    ++counters.slots_taken_back;
    ++parts[debtor].counters.taken_back;
    refuse({Waiter::Kind::kSlot, place, 0}, wire::NackReason::kNoSlot);
}

void Reducer::State::count_no_slot(jobs::JobId job) {
    INNET_LOG(kReduction, "no slot is free for job " << job);
    ++counters.refused_no_slot;
    ++parts[job].counters.refused_no_slot;
}

bool Reducer::State::park_oldest_late(jobs::JobId job) {
    const std::uint32_t place = late_slots.oldest(job);
    if (place == kNoPlace) return false;
    const bool has_room = make_room_to_park(job);
    const Slot& slot = slots[place];
    const std::uint32_t parked_place =
        has_room ? parked.add(slots.name(place), job) : BoundedTable<Parked>::kNone;
    if (parked_place == kNoPlace) {
        refuse({Waiter::Kind::kSlot, place, 0}, wire::NackReason::kNoSlot);
        return true;
    }
    std::uint32_t operand = 0;
    while (!slot.operands[operand].late) ++operand;
    const std::uint32_t request = slot.operands[operand].request;
    parked[parked_place] = {slot.rule, request, operand, slot.allow_fallback};
    requests.join(request, {Waiter::Kind::kParked, parked_place, operand});
    INNET_LOG(kReduction, "parks " << parked.name(parked_place).whole().to_uri());
    release_slot(place);
    ++counters.reductions_parked;
    return true;
}

bool Reducer::State::make_room_to_park(jobs::JobId job) {
    if (!parked.full()) return true;
    std::uint32_t victim = parked.oldest(job);
    if (victim == kNoPlace || parked.shares().is_below_guarantee(job)) {
        const jobs::JobId debtor = parked.shares().furthest_over();
        if (debtor == jobs::WeightedShares::kNoneOver) return false;
        victim = parked.oldest(debtor);
    }
    refuse({Waiter::Kind::kParked, victim, 0}, wire::NackReason::kNoSlot);
    return true;
}

}  // namespace innet::reduction
