#include "switch_emulator/forwarding/name_scope.hpp"

#include <algorithm>
#include <string_view>

namespace innet::forwarding {

namespace {

bool begins_with(wire::ByteView name, std::string_view component) {
    const std::size_t header = 2;
    return name.size() >= header + component.size() && name[0] == wire::kGenericComponent &&
           name[1] == component.size() &&
           std::equal(component.begin(), component.end(), name.begin() + header);
}

}  // namespace

NameScope scope_of(wire::NameView name) {
    if (begins_with(name.value(), "localhost")) return NameScope::kLocalhost;
    if (begins_with(name.value(), "localhop")) return NameScope::kLocalhop;
    return NameScope::kGlobal;
}

}  // namespace innet::forwarding
