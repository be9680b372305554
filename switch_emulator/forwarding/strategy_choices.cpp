// Which strategy decides for which names.

#include <algorithm>

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

bool Node::State::set_strategy(const wire::Name& prefix, wire::NameView strategy) {
    const bool chosen = strategy_table.choose(prefix, strategy);
    if (chosen) on_strategies_changed();
    return chosen;
}

bool Node::State::set_outside_strategy(const wire::Name& prefix, const wire::Name& strategy,
                                       std::shared_ptr<strategies::StrategyListener> listener,
                                       Duration patience) {
    const bool chosen = strategy_table.choose(
        prefix, {strategy, std::make_unique<strategies::Outside>(
                               std::move(listener), patience, questions, strategy_table.counters)});
    if (chosen) on_strategies_changed();
    return chosen;
}

bool Node::State::unset_strategy(const wire::Name& prefix) {
    const bool was_set = strategy_table.unset(prefix);
    if (was_set) on_strategies_changed();
    return was_set;
}

// Pending Interests move to the new strategy, which has no measurement of their transmissions.
// Entries with an open decision stay pending until they are repeated, as if the first transmission
// were lost.
void Node::State::on_strategies_changed() {
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    for (tables::PitEntry* entry : entries) {
        const auto number = strategy_table.number_for(tables::NamePrefixes(entry->key.name));
        if (number == entry->strategy) continue;
        if (strategies::Strategy* old = notified_strategy(*entry)) old->on_entry_ended(*entry);
        entry->strategy = number;
    }
    strategy_table.drop_unused();
}

std::vector<StrategyChoice> Node::State::strategy_choices() const {
    std::vector<StrategyChoice> all;
    strategy_table.for_each_choice([&](const wire::Name& prefix, const wire::Name& strategy) {
        all.push_back({prefix, strategy});
    });
    if (std::ranges::none_of(all,
                             [](const auto& choice) { return choice.prefix.view().empty(); })) {
        all.push_back({wire::Name(), strategies::default_strategy_name()});
    }
    std::ranges::sort(all, {}, &StrategyChoice::prefix);
    return all;
}

void Node::State::decide(std::uint64_t question, const strategies::StrategyDecision& decision,
                         TimePoint now) {
    const auto open = questions.take(question);
    if (!open) return;
    switch (decision.kind) {
        case strategies::StrategyDecision::Kind::kAsk:
            return forward_as_decided(*open, decision.faces, now);
        case strategies::StrategyDecision::Kind::kRefuse:
            return on_upstreams_exhausted(*open->entry, decision.reason, now);
        case strategies::StrategyDecision::Kind::kFailed:
            ++strategy_table.counters.decisions_failed;
            return let_best_route_decide(*open->entry, now);
    }
}

void Node::State::forward_as_decided(const strategies::OpenQuestion& question,
                                     const std::vector<FaceId>& chosen, TimePoint now) {
    tables::PitEntry& entry = *question.entry;
    const PacketRef packet = kept_interest(entry);
    const auto view = wire::InterestView::parse(packet.bytes());
    std::size_t forwarded = 0;
    for (const FaceId face : chosen) {
        if (!view || !may_send(entry, entry.first_requester(), face)) continue;
        if (!has_hops_for(*view, face)) continue;
        // Another face, in the place of one that has been closed since.
        if (faces.number(face) >= question.faces_so_far) continue;
        send_upstream(entry, {packet, *view, entry.first_requester(), now}, face,
                      strategies::Nonce::kSame);
        if (forwarded++ > 0) ++strategy_table.counters.copies;
    }
    if (forwarded == 0) on_upstreams_exhausted(entry, wire::NackReason::kNoRoute, now);
}

void Node::State::on_decisions_due(TimePoint now) {
    while (const auto late = questions.take_due(now)) {
        ++strategy_table.counters.decisions_late;
        let_best_route_decide(*late->entry, now);
    }
}

void Node::State::let_best_route_decide(tables::PitEntry& entry, TimePoint now) {
    const PacketRef packet = kept_interest(entry);
    const auto view = wire::InterestView::parse(packet.bytes());
    const bool forwarded = view && forward_by(strategy_table.at(tables::kDefaultStrategy), entry,
                                              tables::NamePrefixes(towards(*view)),
                                              {packet, *view, entry.first_requester(), now}) !=
                                       strategies::Outcome::kNoNextHop;
    if (!forwarded) on_upstreams_exhausted(entry, wire::NackReason::kNoRoute, now);
}

strategies::Strategy* Node::State::notified_strategy(const tables::PitEntry& entry) {
    if (entry.strategy == tables::kDefaultStrategy) return nullptr;
    return &strategy_table.at(entry.strategy);
}

}  // namespace innet::forwarding
