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

/// Whoever keeps account of what is kept has to hear of it some day; there are but so many.
bool may_go(const AskedObject& object) { return !object.kept; }

}  // namespace

void AskedObjects::add_awaited(wire::NameView object) {
    add({wire::Name(object)}, true);
    end_watches(OperationStatus::kDone, {});
}

void AskedObjects::add_given(wire::NameView object, TimePoint now) {
    add({wire::Name(object)}, false);
    end_later(now);
}

void AskedObjects::add_kept(std::shared_ptr<const KeptObject> object, TimePoint now, bool at_once) {
    wire::Name name = object->name();
    add({std::move(name), std::move(object)}, at_once);
    end_later(now);
    if (at_once) end_watches(OperationStatus::kDone, {});
}

void AskedObjects::add_tried(const wire::Name& request, TriedFetches tried) {
    add({request, nullptr, std::move(tried)}, true);
    end_watches(OperationStatus::kDone, {});
}

void AskedObjects::end_later(TimePoint now) {
    if (due_ == kNever) due_ = now + kGivenDelay;
}

void AskedObjects::add(AskedObject object, bool is_awaited) {
    const std::lock_guard lock(mutex_);
    if (std::ssize(asked_) >= kMaxAsked) {
        const auto newer = asked_.begin() + kMaxAsked / 2;
        asked_.erase(std::remove_if(asked_.begin(), newer, may_go), newer);
    }
    asked_.push_back(std::move(object));
    any_awaited_ |= is_awaited;
}

void AskedObjects::drop_kept(const wire::Name& prefix) {
    const std::lock_guard lock(mutex_);
    std::erase_if(asked_, [&](const AskedObject& object) {
        return object.kept && prefix.view().is_prefix_of(object.name.view());
    });
}

std::vector<AskedObject> AskedObjects::take() {
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
