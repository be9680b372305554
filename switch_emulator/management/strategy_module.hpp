#pragma once
// strategy-choice: which strategy decides for the names below a prefix.

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/module.hpp"

namespace innet::management {

class StrategyModule final : public Module {
  public:
    /// Choices for more prefixes than `max_choices` are refused with 503.
    StrategyModule(forwarding::Node& node, std::size_t max_choices)
        : node_(node), max_choices_(max_choices) {}

    std::string_view name() const override { return "strategy-choice"; }
    std::span<const CommandRule> commands() const override;
    std::optional<ControlResponse> run(std::string_view verb, const ControlParameters& parameters,
                                       const CommandContext& context) override;
    DatasetKind dataset_kind(std::string_view verb) const override;
    std::optional<Bytes> dataset(std::string_view verb, wire::ByteView filter,
                                 TimePoint now) const override;

  private:
    ControlResponse set(ControlParameters parameters);
    ControlResponse unset(ControlParameters parameters);

    forwarding::Node& node_;
    std::size_t max_choices_;
};

}  // namespace innet::management
