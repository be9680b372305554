#include "transport/wire/key_locator.hpp"

namespace innet::wire {

bool read_key_locator(ByteView value, NameView& key_name) {
    bool found = false;
    for (Reader reader(value); !reader.empty();) {
        const auto element = reader.next();
        if (!element) return false;
        if (found || (element->type != kName && element->type != kKeyDigest)) {
            if (is_critical(element->type)) return false;
            continue;
        }
        found = true;
        if (element->type == kKeyDigest) continue;
        const auto name = NameView::parse(element->value);
        if (!name) return false;
        key_name = *name;
    }
    return found;
}

}  // namespace innet::wire
