#include "switch_emulator/tables/name_prefixes.hpp"

namespace innet::tables {

NamePrefixes::NamePrefixes(wire::NameView name) : name_(name) {
    wire::SipWords words = wire::sip_start();
    words_[0] = words;
    ends_[0] = 0;
    const wire::ByteView bytes = name.value();
    std::size_t hashed = 0;
    wire::Reader reader(bytes);
    while (const auto component = reader.next()) {
        const std::size_t end = bytes.size() - reader.rest().size();
        for (; hashed + wire::SipWords::kSize <= end; hashed += wire::SipWords::kSize) {
            words.compress(wire::SipWords::load(bytes.data() + hashed));
        }
        last_type_ = component->type;
        if (depth_ == kMaxPrefixComponents) continue;
        ++depth_;
        if (component->type == wire::kReflexiveComponent && reflexive_depth_ == 0) {
            reflexive_depth_ = depth_;
        }
        words_[depth_] = words;
        ends_[depth_] = end;
    }
    hash_ = finished(words, bytes.size());
}

}  // namespace innet::tables
