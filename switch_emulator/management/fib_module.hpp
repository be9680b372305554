#pragma once
// fib: next hops that clients set directly, without the RIB.

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

class FibModule final : public Module {
  public:
    /// When the FIB holds `max_next_hops` next hops of any source, more are refused with 503.
    FibModule(forwarding::Node& node, std::size_t max_next_hops)
        : node_(node), max_next_hops_(max_next_hops) {}

    std::string_view name() const override { return "fib"; }
    std::span<const CommandRule> commands() const override;
    std::optional<ControlResponse> run(std::string_view verb, const ControlParameters& parameters,
                                       const CommandContext& context) override;
    DatasetKind dataset_kind(std::string_view verb) const override;
    std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                 TimePoint now) const override;

  private:
    ControlResponse add_next_hop(ControlParameters parameters, const CommandContext& context);
    ControlResponse remove_next_hop(ControlParameters parameters, const CommandContext& context);

    forwarding::Node& node_;
    std::size_t max_next_hops_;
};

}  // namespace innet::management
