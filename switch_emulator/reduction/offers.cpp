#include "switch_emulator/reduction/offers.hpp"

#include <algorithm>
#include <utility>

namespace innet::reduction {

void Offers::add(const ReductionName& name, jobs::JobId job, ArrivedOperand arrived, bool marked,
                 TimePoint now) {
    if (!make_room(job)) return;
    const std::uint32_t place = kept_.add(name, job);
    if (place == kept_.kNone) return;  // offered already
    kept_[place] = {std::move(arrived), marked, now + lifetime_};
    earliest_ = std::min(earliest_, now + lifetime_);
}

std::optional<Given> Offers::take(wire::NameHash hash, wire::NameView name) {
    const std::uint32_t place = kept_.find(hash, name);
    if (place == kept_.kNone) return std::nullopt;
    Given given{0, std::move(kept_[place].arrived), kept_[place].marked};
    kept_.remove(place);
    if (empty()) earliest_ = kNever;
    return given;
}

void Offers::drop_group(wire::NameView group) {
    std::vector<std::uint32_t> places;
    kept_.for_each_place([&](std::uint32_t place) {
        if (kept_.name(place).group() == group) places.push_back(place);
    });
    for (const std::uint32_t place : places) kept_.remove(place);
    if (empty()) earliest_ = kNever;
}

void Offers::drop_job(jobs::JobId job) {
    while (kept_.oldest(job) != kept_.kNone) kept_.remove(kept_.oldest(job));
    if (empty()) earliest_ = kNever;
}

void Offers::drop_expired(TimePoint now) {
    if (now < earliest_) return;
    earliest_ = kNever;
    for (jobs::JobId job = 0; job < jobs::kMaxJobIds; ++job) {
        std::uint32_t oldest = kept_.oldest(job);
        for (; oldest != kept_.kNone && kept_[oldest].expires <= now; oldest = kept_.oldest(job)) {
            kept_.remove(oldest);
        }
        if (oldest != kept_.kNone) earliest_ = std::min(earliest_, kept_[oldest].expires);
    }
}

bool Offers::make_room(jobs::JobId job) {
    if (!kept_.full()) return true;
    const jobs::JobId debtor =
        kept_.shares().is_below_guarantee(job) ? kept_.shares().furthest_over() : job;
    const std::uint32_t oldest =
        debtor == jobs::WeightedShares::kNoneOver ? kept_.kNone : kept_.oldest(debtor);
    if (oldest == kept_.kNone) return false;
    kept_.remove(oldest);
    return true;
}

}  // namespace innet::reduction
