#include "switch_emulator/tables/measurements.hpp"

#include <algorithm>

namespace innet::tables {

void FaceMeasurement::on_sent(TimePoint now) {
    if (unanswered_++ == 0) waiting_since_ = now;
}

// RFC 6298, section 2: alpha 1/8, beta 1/4.
void FaceMeasurement::on_answer(std::optional<Duration> rtt, TimePoint now) {
    on_withdrawn();
    waiting_since_ = now;
    timeouts_ = 0;
    if (!rtt) return;
    if (!srtt_) {
        srtt_ = *rtt;
        variation_ = *rtt / 2;
        return;
    }
    const Duration error = *rtt > *srtt_ ? *rtt - *srtt_ : *srtt_ - *rtt;
    variation_ += (error - variation_) / 4;
    *srtt_ += (*rtt - *srtt_) / 8;
}

void FaceMeasurement::on_refusal(TimePoint now) {
    on_withdrawn();
    waiting_since_ = now;
    ++timeouts_;
}

void FaceMeasurement::on_given_up(TimePoint sent) {
    on_withdrawn();
    if (waiting_since_ > sent) return;
    ++timeouts_;
}

void FaceMeasurement::on_withdrawn() {
    if (unanswered_ > 0) --unanswered_;
}

void FaceMeasurement::note_silence(TimePoint now) {
    if (unanswered_ == 0 || now - waiting_since_ <= rto()) return;
    timeouts_ += static_cast<std::uint32_t>((now - waiting_since_) / rto());
    waiting_since_ = now;
}

Duration FaceMeasurement::rto() const {
    if (!srtt_) return kInitialRto;
    return std::clamp<Duration>(*srtt_ + 4 * variation_, kMinRto, kMaxRto);
}

FaceMeasurement& PrefixMeasurements::at(FaceId face) {
    const auto known = std::ranges::find(faces, face, &FaceMeasurement::face);
    return known == faces.end() ? faces.emplace_back(face) : *known;
}

PrefixMeasurements& Measurements::of(const wire::Name& prefix, TimePoint now) {
    const wire::NameHash hash = prefix.view().hash();
    auto known = prefixes_.find(hash);
    if (known == prefixes_.end()) {
        make_room(now);
        known = prefixes_.emplace(hash, PrefixMeasurements{prefix, {}, now, {}}).first;
    } else if (now - known->second.used > kLifetime) {
        known->second = PrefixMeasurements{prefix, {}, now, {}};
    }
    known->second.used = now;
    return known->second;
}

FaceMeasurement* Measurements::find(wire::NameHash prefix, FaceId face) {
    const auto known = prefixes_.find(prefix);
    if (known == prefixes_.end()) return nullptr;
    const auto of_face = std::ranges::find(known->second.faces, face, &FaceMeasurement::face);
    return of_face == known->second.faces.end() ? nullptr : &*of_face;
}

void Measurements::forget_face(FaceId face) {
    for (auto& [hash, prefix] : prefixes_) {
        std::erase_if(prefix.faces, [&](const FaceMeasurement& of) { return of.face == face; });
    }
}

// Prefixes are added as rarely as routes, so a scan of all of them is rare.
void Measurements::make_room(TimePoint now) {
    if (now >= next_sweep_) {
        std::erase_if(prefixes_,
                      [&](const auto& known) { return now - known.second.used > kLifetime; });
        next_sweep_ = now + kLifetime;
    }
    if (prefixes_.size() < capacity_) return;
    const auto oldest = std::ranges::min_element(
        prefixes_, {}, [](const auto& known) { return known.second.used; });
    if (oldest != prefixes_.end()) prefixes_.erase(oldest);
}

}  // namespace innet::tables
