#include "switch_emulator/management/strategy_module.hpp"

#include <algorithm>
#include <array>

namespace innet::management {

namespace {

constexpr std::uint32_t kStrategyChoice = 0x80;

constexpr std::array<CommandRule, 2> kCommands{{
    {"set", kNameField | kStrategyField, 0},
    {"unset", kNameField, 0},
}};

}  // namespace

std::span<const CommandRule> StrategyModule::commands() const { return kCommands; }

std::optional<ControlResponse> StrategyModule::run(std::string_view verb,
                                                   const ControlParameters& parameters,
                                                   const CommandContext&) {
    return verb == "set" ? set(parameters) : unset(parameters);
}

ControlResponse StrategyModule::set(ControlParameters parameters) {
    if (is_too_long(*parameters.name)) return {kNameTooLong, std::string(kTooLong), parameters};
    if (node_.strategy_choice_count() >= max_choices_ &&
        !node_.has_strategy_choice(*parameters.name)) {
        return {kFull, "this node has too many choices of strategies", parameters};
    }
    if (!node_.set_strategy(*parameters.name, *parameters.strategy)) {
        return {kNotFound, "this node has no such strategy", parameters};
    }
    // The strategy's whole name, with the version that was chosen.
    const auto choices = node_.strategies();
    const auto chosen =
        std::ranges::find(choices, *parameters.name, &forwarding::StrategyChoice::prefix);
    if (chosen != choices.end()) parameters.strategy = chosen->strategy;
    return {kOk, "OK", parameters};
}

ControlResponse StrategyModule::unset(ControlParameters parameters) {
    if (parameters.name->view().empty()) {
        return {kBadRequest, "the strategy of all names can be set, not unset", parameters};
    }
    node_.unset_strategy(*parameters.name);
    return {kOk, "OK", parameters};
}

Module::DatasetKind StrategyModule::dataset_kind(std::string_view verb) const {
    return verb == "list" ? DatasetKind::kWhole : DatasetKind::kNone;
}

std::optional<Bytes> StrategyModule::dataset(std::string_view, wire::ByteView, TimePoint) const {
    Message dataset;
    for (const forwarding::StrategyChoice& choice : node_.strategies()) {
        Message strategy;
        strategy.name(choice.strategy.view());
        Message entry;
        entry.name(choice.prefix.view());
        entry.nested(kStrategy, strategy);
        dataset.nested(kStrategyChoice, entry);
    }
    return dataset.take();
}

}  // namespace innet::management
