// What must always be true of a reducer between two packets.

#include <algorithm>

#include "switch_emulator/reduction/reducer.hpp"
#include "switch_emulator/reduction/reducer_state.hpp"

namespace innet::reduction {

bool Reducer::works_on(wire::NameView name) const {
    const auto parsed = ReductionName::parse(name);
    return parsed &&
           (state_->slots.find(*parsed) != kNoPlace || state_->parked.find(*parsed) != kNoPlace);
}

std::size_t Reducer::in_work() const { return state_->slots.size() + state_->parked.size(); }

void Reducer::audit(AuditReport& report) const {
    const State& state = *state_;
    state.slots.audit(report, "slots in use");
    state.parked.audit(report, "parked reductions");
    state.requests.audit(report);
    state.offers.audit(report);
    state.sent_ahead.audit(report);
    report.expect_equal(state.counters.slots_in_use, state.slots.size(), "slots in use");
    std::size_t waiting = 0;
    std::size_t pinned_bytes = 0;
    state.slots.for_each_place([&](std::uint32_t place) {
        state.audit_slot(report, place);
        for (const SlotOperand& operand : state.slots[place].operands) {
            waiting += operand.request != kNoPlace ? 1 : 0;
            if (operand.arrived) pinned_bytes += operand.arrived->content.pinned_bytes();
        }
    });
    state.parked.for_each_place([&](std::uint32_t place) {
        state.audit_parked(report, place);
        waiting += state.parked[place].request != kNoPlace ? 1 : 0;
    });
    report.expect_equal(state.requests.waiter_count(), waiting, "waiters for operands");
    report.expect_equal(state.pinned_bytes, pinned_bytes, "bytes that slots keep");
}

void Reducer::State::audit_slot(AuditReport& report, std::uint32_t place) const {
    const Slot& slot = slots[place];
    std::size_t missing = 0;
    std::size_t late = 0;
    for (std::uint32_t operand = 0; operand < slot.operands.size(); ++operand) {
        const SlotOperand& one = slot.operands[operand];
        missing += one.takes_part && !one.arrived ? 1 : 0;
        late += one.late ? 1 : 0;
        audit_operand(report, place, operand);
    }
    report.expect_equal(slot.missing, missing, "missing operands of a slot");
    report.expect_equal(slot.late, late, "late operands of a slot");
    report.expect(missing > 0, "a slot waits for something");
    report.expect(late_slots.contains(place) == (late > 0), "late slots are queued as late");
}

void Reducer::State::audit_operand(AuditReport& report, std::uint32_t place,
                                   std::uint32_t operand) const {
    const SlotOperand& one = slots[place].operands[operand];
    report.expect(!one.late || one.request != kNoPlace, "a late operand is waited for");
    report.expect((one.request != kNoPlace) == (one.takes_part && !one.arrived),
                  "exactly the missing operands are requested");
    if (one.request == kNoPlace) return;
    report.expect(is_waiter(one.request, {Waiter::Kind::kSlot, place, operand}),
                  "the request of an operand knows its slot");
}

void Reducer::State::audit_parked(AuditReport& report, std::uint32_t place) const {
    const Parked& waiting = parked[place];
    report.expect(waiting.request != kNoPlace &&
                      is_waiter(waiting.request, {Waiter::Kind::kParked, place, waiting.operand}),
                  "a parked reduction waits for its operand");
}

bool Reducer::State::is_waiter(std::uint32_t request, const Waiter& waiter) const {
    const auto waiters = requests.waiters(request);
    return std::ranges::find(waiters, waiter) != waiters.end();
}

}  // namespace innet::reduction
