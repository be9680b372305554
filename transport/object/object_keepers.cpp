#include "transport/object/object_keepers.hpp"

#include <algorithm>
#include <utility>

namespace innet {

void ObjectKeepers::add(KeepOptions options, const security::Keyring& keyring) {
    keepers_.push_back(
        std::make_unique<ObjectKeeper>(std::move(options), objects_, keyring, fetches_));
}

std::unique_ptr<ObjectKeeper> ObjectKeepers::close(const wire::Name& requests) {
    const auto found = std::ranges::find(keepers_, requests,
                                         [](const auto& keeper) { return keeper->requests(); });
    if (found == keepers_.end()) return nullptr;
    std::unique_ptr<ObjectKeeper> closed = std::move(*found);
    keepers_.erase(found);
    closed->close();
    return closed;
}

void ObjectKeepers::on_acknowledged(const wire::Name& requests,
                                    const KeepAcknowledgement& acknowledgement) {
    for (const auto& keeper : keepers_) {
        if (keeper->requests() == requests) keeper->on_acknowledged(acknowledgement);
    }
}

bool ObjectKeepers::handle_request(wire::NameView object, wire::ByteView attached_roots) {
    return std::ranges::any_of(keepers_, [&](const auto& keeper) {
        return keeper->requests().view().is_prefix_of(object) &&
               keeper->take(object, attached_roots);
    });
}

void ObjectKeepers::on_timer(TimePoint now) {
    for (const auto& keeper : keepers_) keeper->on_timer(now);
}

TimePoint ObjectKeepers::next_deadline() const {
    TimePoint deadline = kNever;
    for (const auto& keeper : keepers_) deadline = std::min(deadline, keeper->next_deadline());
    return deadline;
}

}  // namespace innet
