#include "transport/object/asked_objects.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace innet {

namespace {

constexpr std::ptrdiff_t kMaxAsked = 1 << 16;

}  // namespace

void AskedObjects::add(wire::NameView object) {
    if (std::ssize(asked_) == kMaxAsked) {
        asked_.erase(asked_.begin(), asked_.begin() + kMaxAsked / 2);
    }
    asked_.emplace_back(object);
    end_watches(OperationStatus::kDone, {});
}

void AskedObjects::watch(OperationId id) {
    watches_.push_back(id);
    if (!asked_.empty()) end_watches(OperationStatus::kDone, {});
}

bool AskedObjects::cancel(OperationId id) {
    if (std::erase(watches_, id) == 0) return false;
    completions_.push_back({id, OperationStatus::kCancelled, "cancelled"});
    return true;
}

void AskedObjects::abort(const std::string& why) { end_watches(OperationStatus::kAborted, why); }

void AskedObjects::end_watches(OperationStatus status, const std::string& detail) {
    for (const OperationId id : watches_) completions_.push_back({id, status, detail});
    watches_.clear();
}

void AskedObjects::take_completions(std::vector<OperationCompletion>& into) {
    std::ranges::move(completions_, std::back_inserter(into));
    completions_.clear();
}

}  // namespace innet
