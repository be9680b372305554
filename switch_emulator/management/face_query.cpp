#include "switch_emulator/management/face_query.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace innet::management {

namespace {

constexpr std::uint32_t kFaceStatus = 0x80;
constexpr std::uint32_t kFaceQueryFilter = 0x96;
constexpr std::uint32_t kUriScheme = 0x83;
constexpr std::uint32_t kFaceScope = 0x84;
constexpr std::uint32_t kLinkType = 0x86;

std::string_view scheme_of(std::string_view uri) { return uri.substr(0, uri.find(':')); }

bool is_absent_or(const auto& wanted, const auto& actual) { return !wanted || *wanted == actual; }

}  // namespace

std::uint64_t flags_of(const FaceDescription& face) {
    return face.marking && face.marking->enabled ? kCongestionMarkingFlag : 0;
}

void FaceStatus::write_to(Message& message) const {
    Message status;
    status.number(kFaceId, face_id);
    status.text(kUri, description.remote_uri);
    status.text(kLocalUri, description.local_uri);
    status.number(kFaceScope, static_cast<std::uint64_t>(scope));
    status.number(kFacePersistency, static_cast<std::uint64_t>(description.persistency));
    status.number(kLinkType, static_cast<std::uint64_t>(description.link_type));
    if (const auto& marking = description.marking) {
        status.number(kBaseCongestionMarkingInterval,
                      static_cast<std::uint64_t>(marking->base_interval.count()));
        status.number(kDefaultCongestionThreshold, marking->threshold_bytes);
    }
    if (description.mtu) status.number(kMtu, *description.mtu);
    const std::array<std::pair<std::uint32_t, std::uint64_t>, 8> numbers{{
        {0x90, counters.interests_in},
        {0x91, counters.data_in},
        {0x97, counters.nacks_in},
        {0x92, counters.interests_out},
        {0x93, counters.data_out},
        {0x98, counters.nacks_out},
        {0x94, counters.bytes_in},
        {0x95, counters.bytes_out},
    }};
    for (const auto& [type, number] : numbers) status.number(type, number);
    status.number(kFlags, flags_of(description));
    message.nested(kFaceStatus, status);
}

std::optional<FaceQueryFilter> FaceQueryFilter::parse(wire::ByteView element) {
    const auto whole = wire::read_only_element(element);
    if (!whole || whole->type != kFaceQueryFilter) return std::nullopt;
    FaceQueryFilter filter;
    const std::array<std::pair<std::uint32_t, std::optional<std::uint64_t>*>, 4> numbers{{
        {kFaceId, &filter.face_id},
        {kFaceScope, &filter.scope},
        {kFacePersistency, &filter.persistency},
        {kLinkType, &filter.link_type},
    }};
    const std::array<std::pair<std::uint32_t, std::optional<std::string>*>, 3> texts{{
        {kUriScheme, &filter.uri_scheme},
        {kUri, &filter.remote_uri},
        {kLocalUri, &filter.local_uri},
    }};
    for (wire::Reader reader(whole->value); !reader.empty();) {
        const auto field = reader.next();
        if (!field) return std::nullopt;
        for (const auto& [type, place] : texts) {
            if (type == field->type) place->emplace(field->value.begin(), field->value.end());
        }
        for (const auto& [type, place] : numbers) {
            if (type != field->type) continue;
            *place = wire::read_nonnegative(field->value);
            if (!*place) return std::nullopt;
        }
    }
    return filter;
}

bool FaceQueryFilter::matches(const FaceStatus& status) const {
    const FaceDescription& face = status.description;
    return is_absent_or(face_id, status.face_id) &&
           (!uri_scheme || *uri_scheme == scheme_of(face.remote_uri) ||
            *uri_scheme == scheme_of(face.local_uri)) &&
           is_absent_or(remote_uri, face.remote_uri) && is_absent_or(local_uri, face.local_uri) &&
           is_absent_or(scope, static_cast<std::uint64_t>(status.scope)) &&
           is_absent_or(persistency, static_cast<std::uint64_t>(face.persistency)) &&
           is_absent_or(link_type, static_cast<std::uint64_t>(face.link_type));
}

}  // namespace innet::management
