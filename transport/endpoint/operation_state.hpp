#pragma once
// An operation in flight, and the targets that answer for its segments.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/buffer/packet_ref.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/fetch/shard_cursor.hpp"
#include "transport/object/object_fetch.hpp"
#include "transport/publish/publication.hpp"
#include "transport/publish/segment_name.hpp"
#include "transport/wire/lp.hpp"

namespace innet {

struct OperationState {
    OperationId id = 0;
    std::vector<FetchSpec> fetches;
    TimePoint deadline = kNever;
    bool in_place = false;
    bool sends_ahead = false;  ///< segments of `publication`, with the first fetch's requests
    std::shared_ptr<Publication> publication;  ///< may be null
    bool to_neighbour = false;                 ///< its first Interest accepts a draft, ...
    PacketRef attached;                        ///< ... and has these roots
    std::unique_ptr<ObjectFetch> object;       ///< null: `fetches` is all there is to fetch
    std::vector<std::uint32_t> targets;        ///< places in the target table
    std::uint64_t remaining_segments = 0;
    bool ended = false;
    std::function<void(OperationStatus)> on_end;  ///< receives the status in place of the caller
    OperationId group = 0;                        ///< that it is a part of; 0: none
    OperationTimes times;
};

/// No node answers for the name: no route, no registration, or no permission.
bool is_dead_end(wire::NackReason reason);

/// How an operation ended.
struct Outcome {
    OperationState* operation = nullptr;
    OperationStatus status = OperationStatus::kDone;
    std::string detail;
    bool names_late = false;  ///< `detail` names the late producers
};

/// One target of one fetch.
struct TargetState {
    /// A late producer, and the time of its last Hold.
    struct Late {
        std::string label;
        TimePoint last_held;
    };

    OperationState* operation = nullptr;  ///< null: this place is free
    std::size_t fetch = 0;                ///< in operation->fetches
    std::size_t number = 0;               ///< in the fetch's targets
    wire::NameHash hash = 0;              ///< of the tensor's name; tags its publication
    SegmentNamer namer;
    ShardCursor unsent;
    std::uint32_t flow = 0;
    std::uint64_t index_key = 0;  ///< in the target table
    std::uint32_t next_of_same_key = 0;
    bool can_self_evaluate = false;
    std::uint64_t most_awaited = UINT64_MAX;  ///< segments at a time
    std::uint64_t awaited = 0;                ///< segments requested and not answered

    /// Rounds of refusals since the last answer, and when the round under way ends.
    std::uint32_t refusal_rounds = 0;
    std::uint32_t answers_not_accepted = 0;
    TimePoint retry_at{};
    std::optional<wire::NackReason> last_refusal;
    std::vector<Late> late;

    const FetchSpec& spec() const { return operation->fetches[fetch]; }
    /// Valid until the next call.
    wire::NameView request_name(std::uint64_t segment);

    void on_held(wire::ByteView label, TimePoint now);
    void on_answered();
};

/// Readable report of an operation's missing parts: the late producers, or else the missing
/// segments and the queried nodes.
class MissingReport {
  public:
    explicit MissingReport(TimePoint heard_since) : heard_since_(heard_since) {}

    void add(const TargetState& target, std::uint64_t missing_segments,
             std::uint64_t first_missing);
    std::string text() const;
    bool names_late() const { return !late_.empty(); }
    /// The labels of the late producers, in the order of their numbers.
    std::vector<std::string> late() const;
    bool only_refusals() const { return targets_ > 0 && unreachable_ == targets_; }

  private:
    TimePoint heard_since_;
    std::vector<std::string> late_;
    std::string unanswered_;
    std::size_t targets_ = 0;
    std::size_t unreachable_ = 0;
};

}  // namespace innet
