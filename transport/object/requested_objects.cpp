#include "transport/object/requested_objects.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

namespace innet {

namespace {

constexpr std::ptrdiff_t kMaxRequested = 1 << 16;
/// Maximum delay of reports of served objects: short enough for eviction policies, long enough to
/// batch wake-ups.
constexpr Duration kServedDelay = std::chrono::milliseconds(10);

/// Reports of kept objects are never dropped. The keeper limits their number.
bool may_drop(const RequestedObject& object) { return !object.kept; }

}  // namespace

void RequestedObjects::add_awaited(wire::NameView object) {
    add({wire::Name(object)}, true);
    end_watches(OperationStatus::kDone, {});
}

void RequestedObjects::add_served(wire::NameView object, TimePoint now) {
    add({wire::Name(object)}, false);
    end_later(now);
}

void RequestedObjects::add_kept(std::shared_ptr<const KeptObject> object, TimePoint now,
                                bool at_once) {
    wire::Name name = object->name();
    add({std::move(name), std::move(object)}, at_once);
    end_later(now);
    if (at_once) end_watches(OperationStatus::kDone, {});
}

void RequestedObjects::add_unanswered(const wire::Name& request, FetchOutcomes outcomes) {
    add({request, nullptr, std::move(outcomes)}, true);
    end_watches(OperationStatus::kDone, {});
}

void RequestedObjects::end_later(TimePoint now) {
    if (due_ == kNever) due_ = now + kServedDelay;
}

void RequestedObjects::add(RequestedObject object, bool is_awaited) {
    const std::lock_guard lock(mutex_);
    if (std::ssize(requested_) >= kMaxRequested) {
        const auto newer = requested_.begin() + kMaxRequested / 2;
        requested_.erase(std::remove_if(requested_.begin(), newer, may_drop), newer);
    }
    requested_.push_back(std::move(object));
    any_awaited_ |= is_awaited;
}

void RequestedObjects::drop_kept(const wire::Name& prefix) {
    const std::lock_guard lock(mutex_);
    std::erase_if(requested_, [&](const RequestedObject& object) {
        return object.kept && prefix.view().is_prefix_of(object.name.view());
    });
}

std::vector<RequestedObject> RequestedObjects::take() {
    const std::lock_guard lock(mutex_);
    any_awaited_ = false;
    return std::exchange(requested_, {});
}

void RequestedObjects::watch(OperationId id) {
    watches_.push_back(id);
    const std::lock_guard lock(mutex_);
    if (any_awaited_) end_watches(OperationStatus::kDone, {});
}

bool RequestedObjects::cancel(OperationId id) {
    if (std::erase(watches_, id) == 0) return false;
    completions_.push_back({id, OperationStatus::kCancelled, "cancelled"});
    return true;
}

void RequestedObjects::abort(const std::string& why) {
    end_watches(OperationStatus::kAborted, why);
}

void RequestedObjects::on_timer(TimePoint now) {
    if (now < next_deadline()) return;
    due_ = kNever;
    const std::lock_guard lock(mutex_);
    if (!requested_.empty()) end_watches(OperationStatus::kDone, {});
}

void RequestedObjects::end_watches(OperationStatus status, const std::string& detail) {
    for (const OperationId id : watches_) completions_.push_back({id, status, detail});
    watches_.clear();
}

void RequestedObjects::take_completions(std::vector<OperationCompletion>& into) {
    std::ranges::move(completions_, std::back_inserter(into));
    completions_.clear();
}

}  // namespace innet
