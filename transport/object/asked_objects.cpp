#include "transport/object/asked_objects.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

namespace innet {

namespace {

constexpr std::ptrdiff_t kMaxAsked = 1 << 16;
/// Who keeps objects learns of their use so late at most: often enough to evict by it, and not a
/// wake-up for each.
constexpr Duration kGivenDelay = std::chrono::milliseconds(10);

}  // namespace

void AskedObjects::add_awaited(wire::NameView object) {
    add(object, true);
    end_watches(OperationStatus::kDone, {});
}

void AskedObjects::add_given(wire::NameView object, TimePoint now) {
    add(object, false);
    if (due_ == kNever) due_ = now + kGivenDelay;
}

void AskedObjects::add(wire::NameView object, bool is_awaited) {
    const std::lock_guard lock(mutex_);
    if (std::ssize(asked_) == kMaxAsked) {
        asked_.erase(asked_.begin(), asked_.begin() + kMaxAsked / 2);
    }
    asked_.emplace_back(object);
    any_awaited_ |= is_awaited;
}

std::vector<wire::Name> AskedObjects::take() {
    const std::lock_guard lock(mutex_);
    any_awaited_ = false;
    return std::exchange(asked_, {});
}

void AskedObjects::watch(OperationId id) {
    watches_.push_back(id);
    const std::lock_guard lock(mutex_);
    if (any_awaited_) end_watches(OperationStatus::kDone, {});
}

bool AskedObjects::cancel(OperationId id) {
    if (std::erase(watches_, id) == 0) return false;
    completions_.push_back({id, OperationStatus::kCancelled, "cancelled"});
    return true;
}

void AskedObjects::abort(const std::string& why) { end_watches(OperationStatus::kAborted, why); }

void AskedObjects::on_timer(TimePoint now) {
    if (now < next_deadline()) return;
    due_ = kNever;
    const std::lock_guard lock(mutex_);
    if (!asked_.empty()) end_watches(OperationStatus::kDone, {});
}

void AskedObjects::end_watches(OperationStatus status, const std::string& detail) {
    for (const OperationId id : watches_) completions_.push_back({id, status, detail});
    watches_.clear();
}

void AskedObjects::take_completions(std::vector<OperationCompletion>& into) {
    std::ranges::move(completions_, std::back_inserter(into));
    completions_.clear();
}

}  // namespace innet
