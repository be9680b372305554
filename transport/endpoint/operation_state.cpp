#include "transport/endpoint/operation_state.hpp"

#include <algorithm>
#include <string_view>

namespace innet {

namespace {

/// Distinct late ranks remembered per target, and targets spelled out in a report.
constexpr std::size_t kMaxLate = 256;
constexpr std::size_t kMaxTargetsInText = 4;

std::string_view as_text(wire::ByteView bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view reason_text(wire::NackReason reason) {
    switch (reason) {
        case wire::NackReason::kCongestion:
            return "congestion";
        case wire::NackReason::kDuplicate:
            return "duplicate";
        case wire::NackReason::kNoRoute:
            return "no route, or nothing registered there";
        case wire::NackReason::kNoSlot:
            return "no free reduction slot";
        case wire::NackReason::kNoRule:
            return "no reduction rule";
        case wire::NackReason::kForbidden:
            return "the name is of another job";
        case wire::NackReason::kNoData:
            return "no such object there";
        case wire::NackReason::kNone:
            break;
    }
    return "no reason given";
}

/// Ranks, such as "rank 10 (h10)", in the order of their numbers: shorter labels first.
bool by_number(const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

bool is_dead_end(wire::NackReason reason) {
    return reason == wire::NackReason::kNoRoute || reason == wire::NackReason::kNoRule ||
           reason == wire::NackReason::kForbidden;
}

wire::NameView TargetState::request_name(std::uint64_t segment) {
    const FetchSpec& fetched = spec();
    if (fetched.digests.empty()) return namer.segment(segment);
    return namer.segment(segment, fetched.digests[segment - fetched.first_segment]);
}

void TargetState::on_held(wire::ByteView label, TimePoint now) {
    refusal_rounds = 0;
    last_refusal.reset();
    const std::string_view text = as_text(label);
    for (Late& entry : late) {
        if (entry.label != text) continue;
        entry.last_held = now;
        return;
    }
    if (late.size() < kMaxLate) late.push_back({std::string(text), now});
}

void TargetState::on_answered() {
    --awaited;
    refusal_rounds = 0;
    last_refusal.reset();
    late.clear();
}

void MissingReport::add(const TargetState& target, std::uint64_t missing_segments,
                        std::uint64_t first_missing) {
    ++targets_;
    for (const TargetState::Late& entry : target.late) {
        if (entry.last_held < heard_since_) continue;
        if (std::ranges::find(late_, entry.label) == late_.end()) late_.push_back(entry.label);
    }
    if (target.last_refusal && is_dead_end(*target.last_refusal)) ++unreachable_;
    if (targets_ > kMaxTargetsInText) return;
    const wire::Name& hint = target.spec().targets[target.number].hint;
    if (!unanswered_.empty()) unanswered_ += "; ";
    unanswered_ += std::to_string(missing_segments) + " segments of " +
                   target.namer.tensor().to_uri() + " (from seg=" + std::to_string(first_missing) +
                   ") had no answer";
    if (!hint.view().empty()) unanswered_ += " from " + hint.view().to_uri();
    if (target.last_refusal) {
        unanswered_ += ", which said: ";
        unanswered_ += reason_text(*target.last_refusal);
    }
}

std::vector<std::string> MissingReport::late() const {
    std::vector<std::string> labels = late_;
    std::ranges::sort(labels, by_number);
    return labels;
}

std::string MissingReport::text() const {
    if (late_.empty()) {
        if (targets_ <= kMaxTargetsInText) return unanswered_;
        return unanswered_ + "; and " + std::to_string(targets_ - kMaxTargetsInText) + " more";
    }
    const std::vector<std::string> labels = late();
    std::string text;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (i != 0) text += ", ";
        text += labels[i];
    }
    return text + (labels.size() == 1 ? " had not sent its data" : " had not sent their data");
}

}  // namespace innet
