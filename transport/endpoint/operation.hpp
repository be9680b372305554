#pragma once
// An operation: the unit of a collective, an object transfer or a message. It publishes at most one
// tensor and fetches names, with one deadline and one completion.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/publish/segmentation.hpp"
#include "transport/security/segment_tagger.hpp"
#include "transport/security/sha256.hpp"
#include "transport/time.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/name.hpp"

namespace innet {

class SegmentReceiver;

using OperationId = std::uint64_t;

/// A tensor that this endpoint publishes, segment by segment, under `prefix/<kind>/seq=<seq>`.
struct PublicationSpec {
    wire::Name prefix;  ///< a registered producer prefix, such as /job/g0/3
    wire::Name kind;    ///< one or more components, such as /sum.f32 (or /p2p.f32/5/0)
    std::uint64_t seq = 0;
    std::span<const std::uint8_t> tensor;  ///< must stay valid until the operation's completion
    Segmentation segmentation;
    std::uint64_t tensor_elements = 0;
    /// Readable description of the call, such as `rank 3: allreduce(sum.f32, 4096 elements)`; part
    /// of the error that a rank with a different operation `seq` receives.
    std::string description;
    /// One publication per (prefix, seq) when true (collectives): an Interest for another kind of
    /// the same seq (with as many components) is answered by a mismatch error. False for
    /// point-to-point messages.
    bool exclusive_seq = true;
    /// End offsets of segments of unequal sizes, none above the segmentation's; they fill `tensor`
    /// without gaps. Must stay valid as `tensor`. Empty: cut as the segmentation says.
    std::span<const std::uint64_t> segment_ends = {};
    /// What this rank called since all ranks last waited for each other, as text of at most
    /// wire::kMaxEarlierCalls bytes, or wire::kUnknownCalls. Ranks whose texts do not agree get a
    /// mismatch.
    std::string earlier_calls = {};
    /// Each segment goes to the node that is asked for its sum, just ahead of that request: that
    /// node, or one before it, adds it. Where not all sums are fetched, none is sent ahead.
    bool offered = false;
};

/// A local call that failed before it published, or that does not publish the requested tensor:
/// requesters receive an error.
struct FailureSpec {
    std::vector<wire::Name> prefixes;  ///< registered producer prefixes
    /// Name components after the tensor's type; empty for collectives. The call may have failed
    /// because of its type, so the failure answers for tensors of any type.
    wire::Name suffix;
    std::uint64_t seq = 0;
    wire::TensorErrorCode code = wire::TensorErrorCode::kFailed;
    std::string why;  ///< names the rank, its call and the cause
};

/// Which target a segment is fetched from.
enum class ShardRule : std::uint8_t { kSegmentModulo, kBlock };

struct FetchTarget {
    wire::Name
        name;  ///< up to and including the sequence number; the segment component is appended
    wire::Name hint;  ///< ForwardingHint of the node that answers; may be empty
    /// The name is an interval that this node has a rule for: when `hint` cannot answer, the node
    /// evaluates it by itself.
    bool can_self_evaluate = false;
};

/// Segments [first_segment, end_segment) of a tensor into `into`, whose first byte is that of
/// first_segment.
struct FetchSpec {
    std::vector<FetchTarget> targets;  ///< targets[shard(s) % targets.size()] answers for segment s
    ShardRule shard_rule = ShardRule::kSegmentModulo;
    Segmentation segmentation;
    std::uint64_t first_segment = 0;
    std::uint64_t end_segment = 0;
    std::uint64_t tensor_elements = 0;  ///< must equal the publisher's, else a mismatch
    std::span<std::uint8_t> into;       ///< must stay valid until completion
    /// Receives the size of each segment, from first_segment on; segments may be shorter than the
    /// segmentation says. Must stay valid as `into`. Empty: other sizes are a mismatch.
    std::span<std::uint32_t> sizes;
    /// Implicit digests of the segments, from first_segment on: part of the requested names,
    /// so only matching bytes are accepted. Empty: any verified Data of the name is
    /// accepted.
    std::span<const security::Sha256Digest> digests;
    /// Tags of the segments, likewise, and the tagger that checks them: a segment with the right
    /// tag has the listed digest and need not be hashed. Without digests, segments are requested by
    /// their plain names, and only those with the right tags are accepted. Both empty: no tags.
    std::span<const security::SegmentTag> tags;
    security::SegmentTagger* tagger = nullptr;
    SegmentReceiver* receiver = nullptr;  ///< takes the answers; `into` is not used then
    std::string earlier_calls = {};       ///< as of the publication
    bool wraps = false;  ///< takes sums of integers that left their type, modulo 2^n
};

/// Whether the operation fetches names under `prefix`. All fetches of an operation are in one
/// group, so the first decides.
inline bool concerns(const std::vector<FetchSpec>& fetches, const wire::Name& prefix) {
    return !fetches.empty() && !fetches.front().targets.empty() &&
           prefix.view().is_prefix_of(fetches.front().targets.front().name.view());
}

struct OperationSpec {
    std::optional<PublicationSpec> publication;
    std::vector<FetchSpec> fetches;
    TimePoint deadline = kNever;
    /// `into` of the fetches overlaps the publication's tensor, with the same segmentation: a
    /// segment's old bytes are retained for the network before the new ones are written.
    bool in_place = false;
};

enum class OperationStatus : std::uint8_t {
    kDone,
    kDeadlineExceeded,
    kMismatch,
    kOverflow,
    kAborted,  ///< a publisher gave up, or `abort` was called
    kNoRoute,
    kCancelled,
    kUntrusted,   ///< an unexpected key signed the object's root manifest
    kAbsent,      ///< the queried node does not have the object, or not any longer
    kPeerFailed,  ///< the call failed at a publisher before it contributed
};

/// Timestamps of an operation; `kNever` for events that did not happen.
struct OperationTimes {
    TimePoint started = kNever;        ///< its first Interests left
    TimePoint first_segment = kNever;  ///< the first answer that it took
    TimePoint ended = kNever;
};

struct OperationCompletion {
    OperationId id = 0;
    OperationStatus status = OperationStatus::kDone;
    std::string detail;  ///< readable text: the missing producers, or the difference
    OperationTimes times{};
    bool names_late = false;  ///< `detail` names the late producers
};

/// An operation of several parts, which completes once all of them have ended.
struct OperationGroup {
    std::size_t left = 0;  ///< parts that have not ended
    OperationCompletion completion;
};

/// What an operation in flight waits for, as its completion would report it.
struct MissingParts {
    std::string detail;
    bool names_late = false;
};

/// An operation in flight, as a status shows it.
struct OperationProgress {
    OperationId id = 0;
    std::vector<std::string> late;  ///< labels of the late producers, in order
    std::string missing;
};

}  // namespace innet
