#pragma once
// Limits a group's operations in flight, and determines when their tensors can be dropped.
//
// Operation `seq` of a stream starts when all up to `seq - depth` have ended: at most `depth` are
// in flight, and a slow one is not overtaken by more than that. So when an operation ends whose end
// proves that every rank had started it (a synchronising one, such as an allreduce), every rank had
// ended all operations `depth` before it: no rank can still need those tensors.
//
// A queued operation ends at its deadline, too. A copy of its publication stays queued: published
// before its turn, it could let other ranks end and drop tensors that this rank's earlier
// operations still need.
//
// A call that fails before it can publish is queued as well: `fail` publishes the failure at its
// turn. An operation also announces its call under all prefixes of its stream: ranks that make a
// different call with its sequence number request names that will not be published, and receive the
// announcement as an error. A sequence number is used once, by an operation or by a failure,
// whichever is first; so a caller that does not know its progress may fail its numbers again.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/endpoint/endpoint.hpp"

namespace innet {

using StreamId = std::uint32_t;

struct StreamedOperation {
    OperationId id = 0;
    std::uint64_t seq = 0;
    bool synchronising = false;
    OperationSpec spec;
    /// Number of following sequence numbers that are reserved for operations that depend on this
    /// one's result. They are submitted, or released, later than operations called after this one.
    std::uint32_t reserves = 0;
    /// Set: the call failed, and this is published in place of `spec`.
    std::optional<FailureSpec> failure = std::nullopt;
    /// Text for ranks that made a different call at this number; empty: none is sent.
    std::string call = {};
};

class OperationStreams {
  public:
    explicit OperationStreams(Endpoint& endpoint) : endpoint_(endpoint) {}

    /// `prefixes`: the producer prefixes under which operations of the stream publish.
    void open(StreamId stream, std::vector<wire::Name> prefixes, std::uint32_t depth);
    /// Cancels the queued operations and removes the stream; operations in flight continue.
    void close(StreamId stream);
    /// Sequence numbers of a stream ascend, except reserved ones. A reserved one starts at once: it
    /// already counts as in flight.
    void submit(StreamId stream, StreamedOperation operation, TimePoint now);
    /// The call with sequence number `failure.seq` failed before it contributed: ranks that need
    /// its contribution receive the failure, under all prefixes of the stream. No effect when the
    /// number is in use or released.
    void fail(StreamId stream, FailureSpec failure, TimePoint now);
    /// Releases a reserved sequence number.
    void release(StreamId stream, std::uint64_t seq, TimePoint now);
    /// Other ranks still receive the operation's publication.
    void cancel(OperationId id, TimePoint now);
    /// As `Endpoint::abort`, also for queued operations.
    void abort(const wire::Name& prefix, const std::string& why, TimePoint now);
    /// Ends queued operations at their deadline with kDeadlineExceeded; `detail` names what the
    /// operation before them waits for. Call it before the endpoint's `on_timer`.
    void on_timer(TimePoint now);
    /// At most the earliest deadline of a queued operation.
    TimePoint next_deadline() const { return next_deadline_; }
    /// Takes the endpoint's completions, and starts the operations that were queued behind them.
    void take_completions(std::vector<OperationCompletion>& into, TimePoint now);

  private:
    /// A queued operation.
    struct Waiting {
        StreamedOperation operation;
        /// Its completion was delivered; copies of its publication stay queued.
        bool ended = false;
        std::vector<std::uint8_t> tensor;
        std::vector<std::uint64_t> segment_ends;

        TimePoint deadline() const { return ended ? kNever : operation.spec.deadline; }
        /// Whether other ranks will request its tensor or failure.
        bool has_contribution() const {
            return operation.spec.publication.has_value() || operation.failure.has_value();
        }
        void end();
    };
    struct Stream {
        std::vector<wire::Name> prefixes;
        std::uint32_t depth = 1;
        std::vector<std::uint64_t> in_flight;  ///< sequence numbers, reserved ones included
        std::vector<std::uint64_t> reserved;
        std::deque<Waiting> waiting;  ///< in the order of their sequence numbers
        std::uint64_t next_seq = 0;
        std::vector<std::uint64_t> unused;  ///< below `next_seq`, the reserved ones among them

        /// Claims `seq`; false when it was used before.
        bool claim(std::uint64_t seq, std::uint32_t reserves);
        void wait(Waiting&& later);
        bool may_start(const StreamedOperation& operation) const;
        /// True when `seq` was reserved.
        bool take_reserved(std::uint64_t seq);
    };
    struct Started {
        StreamId stream = 0;
        std::uint64_t seq = 0;
        bool synchronising = false;
        bool reported = false;  ///< its completion was delivered before it started
        std::string after;  ///< why it started late: the earlier operation and its missing ranks

        std::string cause(const MissingParts& missing) const;
    };

    /// Starts or queues it.
    void enter(StreamId id, Stream& stream, Waiting&& waiting, TimePoint now);
    void start(StreamId id, Stream& stream, Waiting&& waiting, TimePoint now,
               const std::string& after = {});
    /// Requesters of names that `seq` does not publish receive a mismatch with `call`.
    void announce(const Stream& stream, std::uint64_t seq, std::string call);
    /// `after`: the ranks missing from the operation before them, if it failed for that.
    void start_waiting(StreamId id, Stream& stream, TimePoint now, const std::string& after = {});
    /// False when the completion was delivered before.
    bool on_ended(OperationCompletion& completion, TimePoint now);
    void expire(StreamId id, Stream& stream, TimePoint now);
    /// Readable text: why the stream's operations are queued.
    std::string why_waiting(StreamId id, const Stream& stream, TimePoint now) const;

    Endpoint& endpoint_;
    std::unordered_map<StreamId, Stream> streams_;
    std::unordered_map<OperationId, Started> started_;
    std::vector<OperationCompletion> refused_;
    TimePoint next_deadline_ = kNever;
};

}  // namespace innet
