#include "switch_emulator/management/rib_module.hpp"

#include <array>

#include "switch_emulator/management/face_ids.hpp"
#include "transport/wire/milliseconds.hpp"

namespace innet::management {

namespace {

constexpr std::uint32_t kRibEntry = 0x80;
constexpr std::uint32_t kRoute = 0x81;

constexpr std::array<CommandRule, 2> kCommands{{
    {"register", kNameField,
     kFaceIdField | kOriginField | kCostField | kFlagsField | kExpirationField},
    {"unregister", kNameField, kFaceIdField | kOriginField},
}};

Message written_route(const forwarding::Node& node, const RibRoute& route, TimePoint now) {
    Message message;
    message.number(kFaceId, shown_face_id(node, route.face));
    message.number(kOrigin, route.origin);
    message.number(kCost, route.cost);
    message.number(kFlags, route.flags);
    if (route.expiry != kNever) {
        message.number(kExpirationPeriod, wire::ms_of_duration(route.expiry - now));
    }
    return message;
}

}  // namespace

RibModule::RibModule(forwarding::Node& node, std::size_t max_routes, std::size_t max_next_hops)
    : node_(node), max_routes_(max_routes), max_next_hops_(max_next_hops), rib_(*this) {}

std::span<const CommandRule> RibModule::commands() const { return kCommands; }

std::optional<ControlResponse> RibModule::run(std::string_view verb,
                                              const ControlParameters& parameters,
                                              const CommandContext& context) {
    return verb == "register" ? register_route(parameters, context)
                              : unregister_route(parameters, context);
}

ControlResponse RibModule::register_route(ControlParameters parameters,
                                          const CommandContext& context) {
    const auto face = open_face(node_, parameters.face_id, context.from);
    parameters.face_id = meant_face_id(node_, parameters.face_id, context.from);
    parameters.origin = parameters.origin.value_or(0);
    parameters.cost = parameters.cost.value_or(0);
    parameters.flags = parameters.flags.value_or(kChildInherit);
    if (const auto refusal = refusal_of_next_hop(parameters, face)) return *refusal;
    RibRoute route{.face = *face,
                   .origin = *parameters.origin,
                   .cost = static_cast<std::uint32_t>(*parameters.cost),
                   .flags = *parameters.flags};
    if (parameters.expiration_period_ms) {
        route.expiry = context.now + wire::duration_of_ms(*parameters.expiration_period_ms);
    }
    if (!has_room_for(*parameters.name, route)) {
        return {kFull, "this node has too many routes", parameters};
    }
    rib_.put(*parameters.name, route);
    return {kOk, "Success", parameters};
}

// Other flags may give longer prefixes next hops, as a new route does; another cost gives none.
bool RibModule::has_room_for(const wire::Name& prefix, const RibRoute& route) const {
    const RibRoute* known = rib_.find(prefix, route.face, route.origin);
    if (known == nullptr && rib_.routes() >= max_routes_) return false;
    if (known != nullptr && known->flags == route.flags) return true;
    return node_.route_count() < max_next_hops_;
}

// A route that is not there is as good as removed: so NFD answers, too.
ControlResponse RibModule::unregister_route(ControlParameters parameters,
                                            const CommandContext& context) {
    const std::uint64_t number = meant_face_id(node_, parameters.face_id, context.from);
    parameters.face_id = number;
    parameters.origin = parameters.origin.value_or(0);
    if (const auto face = open_face(node_, number, context.from)) {
        rib_.remove(*parameters.name, *face, *parameters.origin);
    }
    return {kOk, "Success", parameters};
}

Module::DatasetKind RibModule::dataset_kind(std::string_view verb) const {
    return verb == "list" ? DatasetKind::kWhole : DatasetKind::kNone;
}

std::optional<Bytes> RibModule::dataset(std::string_view, wire::ByteView, TimePoint now) const {
    Message dataset;
    rib_.for_each([&](const wire::Name& prefix, const std::vector<RibRoute>& routes) {
        Message entry;
        entry.name(prefix.view());
        for (const RibRoute& route : routes) {
            entry.nested(kRoute, written_route(node_, route, now));
        }
        dataset.nested(kRibEntry, entry);
    });
    return dataset.take();
}

void RibModule::add_next_hop(const wire::Name& prefix, FaceId face, std::uint32_t cost) {
    node_.add_route(prefix, face, cost);
}

void RibModule::remove_next_hop(const wire::Name& prefix, FaceId face) {
    node_.remove_route(prefix, face);
}

void RibModule::on_route_added(const wire::Name& prefix, const RibRoute& route) {
    if (is_programs(route)) registered_.add(prefix);
}

void RibModule::on_route_removed(const wire::Name& prefix, const RibRoute& route) {
    if (is_programs(route)) registered_.remove(prefix);
}

// The node that a routing daemon learnt a route from already knows the route.
bool RibModule::is_programs(const RibRoute& route) const {
    return route.origin != kNetworkOrigin && node_.face_options(route.face).foreign;
}

}  // namespace innet::management
