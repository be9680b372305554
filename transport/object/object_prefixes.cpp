#include "transport/object/object_prefixes.hpp"

#include <utility>

namespace innet {

void ObjectPrefixes::add(ObjectPrefix prefix) {
    remove(prefix.name);
    const std::size_t depth = prefix.name.view().size();
    const wire::NameHash hash = prefix.name.view().hash();
    if (!by_hash_.insert_or_assign(hash, std::move(prefix)).second) return;
    if (of_depth_.size() <= depth) of_depth_.resize(depth + 1);
    ++of_depth_[depth];
}

void ObjectPrefixes::remove(const wire::Name& name) {
    const auto found = by_hash_.find(name.view().hash());
    if (found == by_hash_.end() || found->second.name != name) return;
    by_hash_.erase(found);
    --of_depth_[name.view().size()];
}

const ObjectPrefix* ObjectPrefixes::longest_of(wire::NameView name) const {
    if (by_hash_.empty()) return nullptr;
    const ObjectPrefix* longest = nullptr;
    wire::NameHasher hasher;
    wire::Reader reader(name.value());
    for (std::size_t depth = 0; depth < of_depth_.size(); ++depth) {
        if (of_depth_[depth] > 0) {
            const auto found = by_hash_.find(hasher.hash());
            if (found != by_hash_.end() && found->second.name.view().is_prefix_of(name)) {
                longest = &found->second;
            }
        }
        const auto component = reader.next();
        if (!component) break;
        hasher.add(component->whole);
    }
    return longest;
}

}  // namespace innet
