#include "transport/security/parameters_digest.hpp"

#include <algorithm>

namespace innet::security {

bool parameters_digest_holds(const wire::InterestView& interest, Sha256& sha256) {
    if (!interest.has_parameters()) return true;
    for (wire::Reader reader(interest.name().value()); !reader.empty();) {
        const auto component = reader.next();
        if (!component) return false;
        if (component->type != wire::kParametersSha256Digest) continue;
        return std::ranges::equal(component->value, sha256.digest(interest.parameters_portion()));
    }
    return false;
}

}  // namespace innet::security
