#include "switch_emulator/tables/name_prefixes.hpp"

namespace innet::tables {

NamePrefixes::NamePrefixes(wire::NameView name) : name_(name) {
    hashes_[0] = hash_;
    ends_[0] = 0;
    const std::size_t size = name.value().size();
    wire::Reader reader(name.value());
    while (const auto component = reader.next()) {
        hash_ = wire::extend_hash(hash_, component->whole);
        last_type_ = component->type;
        if (depth_ == kMaxPrefixComponents) continue;
        ++depth_;
        if (component->type == wire::kReflexiveComponent && reflexive_depth_ == 0) {
            reflexive_depth_ = depth_;
        }
        hashes_[depth_] = hash_;
        ends_[depth_] = size - reader.rest().size();
    }
}

}  // namespace innet::tables
