#include "switch_emulator/forwarding/strategies/outside.hpp"

#include "switch_emulator/forwarding/strategies/best_route.hpp"

namespace innet::forwarding::strategies {

std::uint64_t OpenQuestions::open(const OpenQuestion& question, TimePoint deadline) {
    const std::uint64_t number = ++last_;
    open_.emplace(number, Place{question, by_deadline_.emplace(deadline, number)});
    by_entry_[question.entry] = number;
    return number;
}

std::optional<OpenQuestion> OpenQuestions::take(std::uint64_t number) {
    const auto known = open_.find(number);
    if (known == open_.end()) return std::nullopt;
    const OpenQuestion question = known->second.question;
    by_deadline_.erase(known->second.by_deadline);
    by_entry_.erase(question.entry);
    open_.erase(known);
    return question;
}

std::optional<OpenQuestion> OpenQuestions::take_due(TimePoint now) {
    return next_deadline() <= now ? take(by_deadline_.begin()->second) : std::nullopt;
}

void OpenQuestions::close(const tables::PitEntry& entry) {
    const auto known = by_entry_.find(&entry);
    if (known != by_entry_.end()) take(known->second);
}

Outcome Outside::after_receive_interest(const UpstreamRequest& request, StrategyActions& actions) {
    if (questions_.is_open(request.entry)) return Outcome::kLater;
    if (put_question(request, actions)) return Outcome::kLater;
    ++counters_.decisions_crowded_out;
    return BestRoute().after_receive_interest(request, actions);
}

bool Outside::put_question(const UpstreamRequest& request, const StrategyActions& actions) {
    if (!questions_.has_room()) return false;
    const OpenQuestion question{&request.entry, actions.faces_so_far()};
    StrategyEvent event{.question = questions_.open(question, request.now + patience_),
                        .name = wire::Name(request.entry.key.name),
                        .face = request.except,
                        .repeated = request.repeated};
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (actions.may_forward(request, hop.face)) event.next_hops.push_back(hop);
    }
    if (listener_->on_event(std::move(event))) return true;
    questions_.close(request.entry);
    return false;
}

void Outside::before_satisfy_interest(const tables::PitEntry& entry, tables::OutRecord& upstream,
                                      TimePoint now) {
    StrategyEvent event{.kind = StrategyEvent::Kind::kData,
                        .name = wire::Name(entry.key.name),
                        .face = upstream.face};
    if (!upstream.repeated) event.rtt = now - upstream.sent;
    listener_->on_event(std::move(event));
}

void Outside::after_receive_nack(const tables::PitEntry& entry, tables::OutRecord& upstream,
                                 wire::NackReason reason, TimePoint /*now*/) {
    listener_->on_event({.kind = StrategyEvent::Kind::kNack,
                         .name = wire::Name(entry.key.name),
                         .face = upstream.face,
                         .reason = reason});
}

void Outside::after_interest_timeout(tables::PitEntry& entry, TimePoint /*now*/) {
    for (const tables::OutRecord& upstream : entry.out_records()) {
        if (upstream.nacked) continue;
        listener_->on_event({.kind = StrategyEvent::Kind::kTimeout,
                             .name = wire::Name(entry.key.name),
                             .face = upstream.face});
    }
}

}  // namespace innet::forwarding::strategies
