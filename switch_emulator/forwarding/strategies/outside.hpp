#pragma once
// A strategy whose decisions an external listener makes asynchronously.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "switch_emulator/forwarding/strategies/registry.hpp"

namespace innet::forwarding::strategies {

/// A decision request (kInterest) or a notification to the external listener.
struct StrategyEvent {
    enum class Kind : std::uint8_t { kInterest, kData, kNack, kTimeout } kind = Kind::kInterest;
    std::uint64_t question = 0;  ///< kInterest: what a decision refers to
    wire::Name name;
    FaceId face = kNoFace;  ///< kInterest: the requester; kData, kNack, kTimeout: the upstream
    bool repeated = false;  ///< kInterest: it was sent upstream before
    std::vector<tables::NextHop> next_hops{};  ///< kInterest: eligible next hops, cheapest first
    std::optional<Duration> rtt{};             ///< kData: unless it was sent more than once
    wire::NackReason reason = wire::NackReason::kNone;  ///< kNack
};

/// Takes events where the node runs, and does not keep it waiting.
class StrategyListener {
  public:
    virtual ~StrategyListener() = default;
    /// False: there is no room for it.
    virtual bool on_event(StrategyEvent event) = 0;
};

struct StrategyDecision {
    enum class Kind : std::uint8_t { kAsk, kRefuse, kFailed } kind = Kind::kAsk;
    std::vector<FaceId> faces{};                           ///< kAsk; in this order
    wire::NackReason reason = wire::NackReason::kNoRoute;  ///< kRefuse
};

/// An Interest that waits for the external listener's decision.
struct OpenQuestion {
    tables::PitEntry* entry;
    FaceNumber faces_so_far;  ///< those that came later cannot have been meant
};

/// Interests whose next hop is being decided outside. A bounded number of them are open at a time,
/// each until its deadline.
class OpenQuestions {
  public:
    static constexpr std::size_t kCapacity = 4096;

    bool is_open(const tables::PitEntry& entry) const { return by_entry_.contains(&entry); }
    bool has_room() const { return open_.size() < kCapacity; }
    std::uint64_t open(const OpenQuestion& question, TimePoint deadline);
    /// Closes it; nothing when it is not open (any more).
    std::optional<OpenQuestion> take(std::uint64_t number);
    /// Closes the first question whose deadline has passed; nothing when there is none.
    std::optional<OpenQuestion> take_due(TimePoint now);
    void close(const tables::PitEntry& entry);
    TimePoint next_deadline() const {
        return by_deadline_.empty() ? kNever : by_deadline_.begin()->first;
    }

  private:
    struct Place {
        OpenQuestion question;
        std::multimap<TimePoint, std::uint64_t>::iterator by_deadline;
    };

    std::unordered_map<std::uint64_t, Place> open_;
    std::unordered_map<const tables::PitEntry*, std::uint64_t> by_entry_;
    std::multimap<TimePoint, std::uint64_t> by_deadline_;
    std::uint64_t last_ = 0;
};

/// Asks its listener, and best-route when that has no room for a question.
class Outside final : public Strategy {
  public:
    /// A decision is accepted within `patience`. `questions` and `counters` outlive the strategy.
    Outside(std::shared_ptr<StrategyListener> listener, Duration patience, OpenQuestions& questions,
            StrategyCounters& counters)
        : listener_(std::move(listener)),
          patience_(patience),
          questions_(questions),
          counters_(counters) {}

    Outcome after_receive_interest(const UpstreamRequest& request,
                                   StrategyActions& actions) override;
    void before_satisfy_interest(const tables::PitEntry& entry, tables::OutRecord& upstream,
                                 TimePoint now) override;
    void after_receive_nack(const tables::PitEntry& entry, tables::OutRecord& upstream,
                            wire::NackReason reason, TimePoint now) override;
    void after_interest_timeout(tables::PitEntry& entry, TimePoint now) override;
    void on_entry_ended(tables::PitEntry& entry) override { questions_.close(entry); }

  private:
    bool put_question(const UpstreamRequest& request, const StrategyActions& actions);

    std::shared_ptr<StrategyListener> listener_;
    Duration patience_;
    OpenQuestions& questions_;
    StrategyCounters& counters_;
};

}  // namespace innet::forwarding::strategies
