#include "switch_emulator/reduction/offers.hpp"

#include <algorithm>
#include <utility>

namespace innet::reduction {

bool Offers::add(const ReductionName& name, jobs::JobId job, Offer offer, TimePoint now) {
    const std::size_t bytes = offer.packet.pinned_bytes();
    if (kept_.find(name) != kept_.kNone || !make_room(job, bytes)) return false;
    const std::uint32_t place = kept_.add(name, job);
    if (place == kept_.kNone) return false;
    bytes_ += bytes;
    kept_[place] = {std::move(offer), now + lifetime_};
    earliest_ = std::min(earliest_, now + lifetime_);
    return true;
}

std::optional<Offer> Offers::take(wire::NameHash hash, wire::NameView name) {
    const std::uint32_t place = kept_.find(hash, name);
    if (place == kept_.kNone) return std::nullopt;
    Offer offer = kept_[place].offer;
    remove(place);
    return offer;
}

void Offers::drop_group(wire::NameView group) {
    std::vector<std::uint32_t> places;
    kept_.for_each_place([&](std::uint32_t place) {
        if (kept_.name(place).group() == group) places.push_back(place);
    });
    for (const std::uint32_t place : places) remove(place);
}

void Offers::drop_job(jobs::JobId job) {
    while (kept_.oldest(job) != kept_.kNone) remove(kept_.oldest(job));
}

void Offers::drop_expired(TimePoint now) {
    if (now < earliest_) return;
    TimePoint earliest = kNever;
    for (jobs::JobId job = 0; job < jobs::kMaxJobIds; ++job) {
        std::uint32_t oldest = kept_.oldest(job);
        for (; oldest != kept_.kNone && kept_[oldest].expires <= now; oldest = kept_.oldest(job)) {
            remove(oldest);
        }
        if (oldest != kept_.kNone) earliest = std::min(earliest, kept_[oldest].expires);
    }
    earliest_ = earliest;
}

bool Offers::make_room(jobs::JobId job, std::size_t bytes) {
    while (!has_room(bytes)) {
        const jobs::WeightedShares& shares = kept_.shares();
        const jobs::JobId debtor = shares.is_below_guarantee(job) ? shares.furthest_over() : job;
        const std::uint32_t oldest =
            debtor == jobs::WeightedShares::kNoneOver ? kept_.kNone : kept_.oldest(debtor);
        if (oldest == kept_.kNone) return false;
        remove(oldest);
    }
    return true;
}

void Offers::remove(std::uint32_t place) {
    bytes_ -= kept_[place].offer.packet.pinned_bytes();
    kept_.remove(place);
    if (empty()) earliest_ = kNever;
}

}  // namespace innet::reduction
