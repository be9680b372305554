#include "switch_emulator/management/faces_module.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "switch_emulator/management/face_ids.hpp"
#include "switch_emulator/management/face_query.hpp"

namespace innet::management {

namespace {

constexpr std::uint32_t kChannelStatus = 0x82;
constexpr FieldSet kCongestionFields = kMarkingIntervalField | kCongestionThresholdField;

constexpr std::array<CommandRule, 3> kCommands{{
    {"create", kUriField,
     kLocalUriField | kPersistencyField | kMtuField | kFlagsField | kMaskField | kCongestionFields},
    {"update", 0,
     kFaceIdField | kPersistencyField | kMtuField | kFlagsField | kMaskField | kCongestionFields},
    {"destroy", kFaceIdField, 0},
}};

/// Longer than any node runs, and short enough that adding it to a time does not overflow.
constexpr std::uint64_t kLongestIntervalNs = std::uint64_t{1} << 61U;

/// The flags that the command sets.
std::uint64_t wanted_flags(const ControlParameters& parameters) {
    return parameters.flags.value_or(0) & parameters.mask.value_or(0);
}

bool wants_marks(const ControlParameters& parameters) {
    return (wanted_flags(parameters) & kCongestionMarkingFlag) != 0 ||
           (parameters.present() & kCongestionFields) != 0;
}

bool wants_unknown_flags(const ControlParameters& parameters) {
    return (wanted_flags(parameters) & ~kCongestionMarkingFlag) != 0;
}

/// How a face marks after the command.
port::CongestionMarkerOptions changed(port::CongestionMarkerOptions marking,
                                      const ControlParameters& parameters) {
    if ((parameters.mask.value_or(0) & kCongestionMarkingFlag) != 0) {
        marking.enabled = (parameters.flags.value_or(0) & kCongestionMarkingFlag) != 0;
    }
    if (const auto& ns = parameters.base_congestion_marking_interval_ns) {
        marking.base_interval =
            Duration(static_cast<Duration::rep>(std::min(*ns, kLongestIntervalNs)));
    }
    marking.threshold_bytes =
        parameters.default_congestion_threshold_bytes.value_or(marking.threshold_bytes);
    return marking;
}

void fill_marking(ControlParameters& body, const FaceDescription& face) {
    body.flags = flags_of(face);
    if (!face.marking) return;
    body.base_congestion_marking_interval_ns =
        static_cast<std::uint64_t>(face.marking->base_interval.count());
    body.default_congestion_threshold_bytes = face.marking->threshold_bytes;
}

constexpr std::uint64_t kLastPersistency = static_cast<std::uint64_t>(FacePersistency::kPermanent);

}  // namespace

std::span<const CommandRule> FacesModule::commands() const { return kCommands; }

std::optional<ControlResponse> FacesModule::run(std::string_view verb,
                                                const ControlParameters& parameters,
                                                const CommandContext& context) {
    if (verb == "create") return create(parameters, context);
    return verb == "update" ? update(parameters, context) : destroy(parameters, context);
}

std::optional<ControlResponse> FacesModule::create(const ControlParameters& parameters,
                                                   const CommandContext& context) {
    if (factory_ == nullptr) return ControlResponse{kNotImplemented, "no faces here", parameters};
    const std::uint64_t persistency = parameters.persistency.value_or(0);
    if (persistency > kLastPersistency ||
        persistency == static_cast<std::uint64_t>(FacePersistency::kOnDemand)) {
        return ControlResponse{kNotAcceptable, "such a face is not made on demand", parameters};
    }
    if (wants_unknown_flags(parameters)) {
        return ControlResponse{kNotAcceptable, "no face has these flags", parameters};
    }
    const FaceRequest request{.remote_uri = *parameters.uri,
                              .local_uri = parameters.local_uri.value_or(""),
                              .persistency = static_cast<FacePersistency>(persistency),
                              .mtu = parameters.mtu};
    factory_->create(request, [this, parameters, reply = context.defer()](FaceCreation creation) {
        reply(created(parameters, creation));
    });
    return std::nullopt;
}

ControlResponse FacesModule::created(ControlParameters parameters, const FaceCreation& creation) {
    if (const auto* face = std::get_if<FaceId>(&creation)) {
        set_marking(*face, parameters);
        ControlParameters body;
        fill(body, *face);
        return {kOk, "OK", body};
    }
    const auto& failure = std::get<FaceFailure>(creation);
    if (failure.existing != kNoFace) fill(parameters, failure.existing);
    return {failure.code, failure.text, parameters};
}

void FacesModule::fill(ControlParameters& body, FaceId face) const {
    const FaceDescription description = describe(face);
    body.face_id = shown_face_id(node_, face);
    body.uri = description.remote_uri;
    body.local_uri = description.local_uri;
    body.mtu = description.mtu;
    body.mask.reset();
    fill_marking(body, description);
    body.persistency = static_cast<std::uint64_t>(description.persistency);
}

// What can be refused is looked at first: a command is carried out whole, or not at all.
ControlResponse FacesModule::update(ControlParameters parameters, const CommandContext& context) {
    const auto face = open_face(node_, parameters.face_id, context.from);
    parameters.face_id = meant_face_id(node_, parameters.face_id, context.from);
    if (!face) return {kNotFound, "there is no such face", parameters};
    if (wants_unknown_flags(parameters)) return {kConflict, "no face has these flags", parameters};
    if (parameters.mtu) return {kConflict, "the MTU of a face cannot be changed", parameters};
    if (wants_marks(parameters) && !describe(*face).marking) {
        return {kConflict, "this face marks no congestion by itself", parameters};
    }
    if (parameters.persistency &&
        (factory_ == nullptr || *parameters.persistency > kLastPersistency ||
         !factory_->set_persistency(*face,
                                    static_cast<FacePersistency>(*parameters.persistency)))) {
        return {kConflict, "this face cannot have that persistency", parameters};
    }
    set_marking(*face, parameters);
    const FaceDescription description = describe(*face);
    ControlParameters body;
    body.face_id = parameters.face_id;
    body.persistency = static_cast<std::uint64_t>(description.persistency);
    fill_marking(body, description);
    return {kOk, "OK", body};
}

void FacesModule::set_marking(FaceId face, const ControlParameters& parameters) {
    const auto current = describe(face).marking;
    if (!current || factory_ == nullptr) return;
    factory_->set_congestion_marking(face, changed(*current, parameters));
}

// A face that is not there is as good as destroyed: so NFD answers, too.
ControlResponse FacesModule::destroy(const ControlParameters& parameters,
                                     const CommandContext& context) {
    if (*parameters.face_id == 0) return {kBadRequest, "FaceId is 0", parameters};
    const auto face = open_face(node_, parameters.face_id, context.from);
    if (face && (factory_ == nullptr || !factory_->destroy(*face))) {
        return {kConflict, "this face is not for clients to destroy", parameters};
    }
    return {kOk, "OK", parameters};
}

FaceDescription FacesModule::describe(FaceId face) const {
    auto known = factory_ == nullptr ? std::nullopt : factory_->describe(face);
    // A link that has no socket: one of a simulation.
    return known ? *std::move(known)
                 : FaceDescription{.remote_uri = "internal://",
                                   .local_uri = "internal://",
                                   .persistency = FacePersistency::kPermanent,
                                   .link_type = LinkType::kPointToPoint,
                                   .mtu = std::nullopt};
}

Module::DatasetKind FacesModule::dataset_kind(std::string_view verb) const {
    if (verb == "query") return DatasetKind::kFiltered;
    return verb == "list" || verb == "channels" ? DatasetKind::kWhole : DatasetKind::kNone;
}

std::optional<Bytes> FacesModule::dataset(std::string_view verb, wire::ByteView filter_element,
                                          TimePoint) const {
    if (verb == "channels") return channels();
    std::optional<FaceQueryFilter> filter;
    if (verb == "query") {
        filter = FaceQueryFilter::parse(filter_element);
        if (!filter) return std::nullopt;
    }
    Message dataset;
    for (std::size_t number = 0; number < node_.faces(); ++number) {
        const auto face = static_cast<FaceId>(number);
        if (!node_.is_open(face)) continue;
        const FaceStatus status{.face_id = shown_face_id(node_, face),
                                .description = describe(face),
                                .scope = node_.face_options(face).scope,
                                .counters = node_.face_counters(face)};
        if (!filter || filter->matches(status)) status.write_to(dataset);
    }
    return dataset.take();
}

Bytes FacesModule::channels() const {
    Message dataset;
    if (factory_ == nullptr) return dataset.take();
    for (const std::string& uri : factory_->channels()) {
        Message channel;
        channel.text(kLocalUri, uri);
        dataset.nested(kChannelStatus, channel);
    }
    return dataset.take();
}

}  // namespace innet::management
