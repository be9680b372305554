#pragma once
// rib: registrations of prefixes by clients.

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"
#include "switch_emulator/management/network_routes.hpp"
#include "switch_emulator/management/registered_prefixes.hpp"
#include "switch_emulator/management/rib.hpp"

namespace innet::management {

class RibModule final : public Module, private NextHopSink {
  public:
    /// More routes than `max_routes` are refused with 503; so are more next hops in the FIB than
    /// `max_next_hops`, of which one route may have many (longer prefixes inherit).
    RibModule(forwarding::Node& node, std::size_t max_routes, std::size_t max_next_hops);

    std::string_view name() const override { return "rib"; }
    std::span<const CommandRule> commands() const override;
    std::optional<ControlResponse> run(std::string_view verb, const ControlParameters& parameters,
                                       const CommandContext& context) override;
    DatasetKind dataset_kind(std::string_view verb) const override;
    std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                 TimePoint now) const override;

    void on_face_closed(FaceId face) { rib_.remove_face(face); }
    void on_timer(TimePoint now) { rib_.expire(now); }
    TimePoint next_deadline() const { return rib_.next_expiry(); }
    std::size_t routes() const { return rib_.routes(); }
    RegisteredPrefixes& registered() { return registered_; }
    NetworkRoutes network_routes() { return {rib_, node_}; }

  private:
    bool has_room_for(const wire::Name& prefix, const RibRoute& route) const;
    ControlResponse register_route(ControlParameters parameters, const CommandContext& context);
    ControlResponse unregister_route(ControlParameters parameters, const CommandContext& context);
    void add_next_hop(const wire::Name& prefix, FaceId face, std::uint32_t cost) override;
    void remove_next_hop(const wire::Name& prefix, FaceId face) override;
    void on_route_added(const wire::Name& prefix, const RibRoute& route) override;
    void on_route_removed(const wire::Name& prefix, const RibRoute& route) override;
    /// Whether a program has registered it, for itself or for what is behind it.
    bool is_programs(const RibRoute& route) const;

    forwarding::Node& node_;
    std::size_t max_routes_;
    std::size_t max_next_hops_;
    RegisteredPrefixes registered_;
    Rib rib_;
};

}  // namespace innet::management
