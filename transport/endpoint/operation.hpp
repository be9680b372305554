#pragma once
// An operation: what a collective, an object transfer or a message is made of. "Publish mine, fetch
// those names", with one deadline and one completion.

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

/// A tensor that this endpoint offers, segment by segment, under `prefix/<kind>/seq=<seq>`.
struct PublicationSpec {
    wire::Name prefix;  ///< a registered producer prefix, such as /job/g0/3
    wire::Name kind;    ///< one or more components, such as /sum.f32 (or /p2p.f32/5/0)
    std::uint64_t seq = 0;
    std::span<const std::uint8_t> tensor;  ///< must stay valid until the operation's completion
    Segmentation segmentation;
    std::uint64_t tensor_elements = 0;
    /// Tells people what was called here, such as `rank 3: allreduce(sum.f32, 4096 elements)`; goes
    /// into the error that a rank with another opinion of operation `seq` receives.
    std::string description;
    /// One publication per (prefix, seq) when true (collectives): an Interest for another kind of
    /// the same seq (with as many components) is answered by a mismatch error. False for
    /// point-to-point messages.
    bool exclusive_seq = true;
    /// Segments of unequal sizes, none above the segmentation's: where each ends in `tensor`, which
    /// they fill without gaps. Must stay valid as `tensor`. Empty: cut as the segmentation says.
    std::span<const std::uint64_t> segment_ends = {};
};

/// A call that failed here before it published, or that does not publish what others ask for: who
/// asks for its tensor gets an error.
struct FailureSpec {
    std::vector<wire::Name> prefixes;  ///< registered producer prefixes
    /// What follows the tensor's type in its name; empty for collectives. The type itself may be
    /// what the call failed over, so the failure stands for tensors of any type.
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
    std::vector<FetchTarget> targets;  ///< segment s comes from targets[shard(s) % targets.size()]
    ShardRule shard_rule = ShardRule::kSegmentModulo;
    Segmentation segmentation;
    std::uint64_t first_segment = 0;
    std::uint64_t end_segment = 0;
    std::uint64_t tensor_elements = 0;  ///< what the publisher must have too, else a mismatch
    std::span<std::uint8_t> into;       ///< must stay valid until completion
    /// Segments may be shorter than the segmentation says: how many bytes of each came, from
    /// first_segment on. Must stay valid as `into`. Empty: other sizes are a mismatch.
    std::span<std::uint32_t> sizes;
    /// Implicit digests of the segments, from first_segment on: they are part of the names asked
    /// for, and nothing but the bytes that they stand for is taken. Empty: whatever Data of the
    /// name is verified.
    std::span<const security::Sha256Digest> digests;
    /// Tags of the segments, likewise, and who checks them: a segment of the right tag has the
    /// digest that is listed for it, and need not be hashed. Both empty: there are none.
    std::span<const security::SegmentTag> tags;
    security::SegmentTagger* tagger = nullptr;
    SegmentReceiver* receiver = nullptr;  ///< takes the answers; `into` is not used then
};

/// Whether the first of what is fetched has a name under `prefix`. An operation keeps to one group,
/// and so its first fetch speaks for all.
inline bool concerns(const std::vector<FetchSpec>& fetches, const wire::Name& prefix) {
    return !fetches.empty() && !fetches.front().targets.empty() &&
           prefix.view().is_prefix_of(fetches.front().targets.front().name.view());
}

struct OperationSpec {
    std::optional<PublicationSpec> publication;
    std::vector<FetchSpec> fetches;
    TimePoint deadline = kNever;
    /// `into` of the fetches lies over the publication's tensor with the same segmentation: a
    /// segment's old bytes are kept for the network before the new ones land.
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
    kUntrusted,   ///< an object's root manifest bears the signature of somebody else
    kAbsent,      ///< the node that was asked does not have the object, or has it no longer
    kPeerFailed,  ///< the call failed at a publisher before it contributed
};

/// When what happened to an operation; `kNever` for what did not.
struct OperationTimes {
    TimePoint started = kNever;        ///< its first Interests left
    TimePoint first_segment = kNever;  ///< the first answer that it took
    TimePoint ended = kNever;
};

struct OperationCompletion {
    OperationId id = 0;
    OperationStatus status = OperationStatus::kDone;
    std::string detail;  ///< for people: who was missing, what differed
    OperationTimes times{};
    bool names_late = false;  ///< `detail` tells who had not published
};

/// What an operation in flight waits for, as its completion would tell it.
struct MissingParts {
    std::string detail;
    bool names_late = false;
};

}  // namespace innet
