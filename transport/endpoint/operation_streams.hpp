#pragma once
// Bounds how many operations of a group are under way, and tells when their tensors can be dropped.
//
// Operation `seq` of a stream starts when all up to `seq - depth` have ended: at most `depth` are
// in flight, and a slow one is not overtaken by more than that. So when an operation ends whose end
// proves that every rank had started it (a synchronising one, such as an allreduce), every rank had
// ended all operations `depth` before it: nobody can still need those tensors.
//
// An operation that waits for its turn ends at its deadline all the same. A copy of what it
// publishes keeps its place: published before its turn, it could let other ranks end, and drop
// tensors that this rank's earlier operations still need.
//
// A call that fails before it can publish has a place of its own too: `fail` publishes the failure
// when its turn comes. An operation also says what it is under all prefixes of its stream: ranks
// that call something else with its sequence number ask where nothing will be published, and get
// this in place of an answer. A sequence number is used once, by an operation or by a failure,
// whichever comes first; so a caller that does not know how far it came may fail its numbers again.

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
    /// So many sequence numbers behind this one belong to operations that follow from its result.
    /// They are submitted, or released, later than others that were called after it.
    std::uint32_t reserves = 0;
    /// The call failed: this is published in place of `spec`.
    std::optional<FailureSpec> failure = std::nullopt;
    /// The rank and its call, for ranks that called something else; empty: they are not told.
    std::string call = {};
};

class OperationStreams {
  public:
    explicit OperationStreams(Endpoint& endpoint) : endpoint_(endpoint) {}

    /// `prefixes`: the producer prefixes under which operations of the stream publish.
    void open(StreamId stream, std::vector<wire::Name> prefixes, std::uint32_t depth);
    /// Cancels what waits in the stream and forgets it; what is in flight goes on.
    void close(StreamId stream);
    /// Sequence numbers of a stream ascend, but for reserved ones. A reserved one starts at once:
    /// its place among those under way has been kept for it.
    void submit(StreamId stream, StreamedOperation operation, TimePoint now);
    /// The call with sequence number `failure.seq` failed before it contributed: others that need
    /// its contribution get the failure, under all prefixes of the stream. Nothing happens when
    /// the number is in use or given up.
    void fail(StreamId stream, FailureSpec failure, TimePoint now);
    /// Gives a reserved sequence number up.
    void release(StreamId stream, std::uint64_t seq, TimePoint now);
    /// Others still get what the operation publishes.
    void cancel(OperationId id, TimePoint now);
    /// As `Endpoint::abort`, also for operations whose turn has not come.
    void abort(const wire::Name& prefix, const std::string& why, TimePoint now);
    /// Ends the operations that waited for their turn until their deadline with kDeadlineExceeded;
    /// `detail` tells what the operation before them waits for. Call it before the endpoint's.
    void on_timer(TimePoint now);
    /// No later than the first deadline of those that wait for their turn.
    TimePoint next_deadline() const { return next_deadline_; }
    /// The endpoint's completions, after starting what waited for them.
    void take_completions(std::vector<OperationCompletion>& into, TimePoint now);

  private:
    /// An operation whose turn has not come.
    struct Waiting {
        StreamedOperation operation;
        /// Its caller knows that it has ended; copies of what it publishes wait for its turn.
        bool ended = false;
        std::vector<std::uint8_t> tensor;
        std::vector<std::uint64_t> segment_ends;

        TimePoint deadline() const { return ended ? kNever : operation.spec.deadline; }
        /// Others will ask for something of it.
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

        /// Whether nothing has used `seq` yet; then it is in use from now on.
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
        bool told = false;  ///< that it has ended
        std::string after;  ///< what made it start late: an operation before it, and who missed

        std::string cause(const MissingParts& missing) const;
    };

    /// Starts it, or lets it wait for its turn.
    void enter(StreamId id, Stream& stream, Waiting&& waiting, TimePoint now);
    void start(StreamId id, Stream& stream, Waiting&& waiting, TimePoint now,
               const std::string& after = {});
    /// Others that ask for what the call `seq` does not publish get a mismatch that tells `call`.
    void announce(const Stream& stream, std::uint64_t seq, std::string call);
    /// `after`: who missed from the operation that they waited for, should it have failed for that.
    void start_waiting(StreamId id, Stream& stream, TimePoint now, const std::string& after = {});
    /// False when the end has been told before.
    bool on_ended(OperationCompletion& completion, TimePoint now);
    void expire(StreamId id, Stream& stream, TimePoint now);
    /// What keeps the operations of a stream from their turn, for people.
    std::string why_waiting(StreamId id, const Stream& stream, TimePoint now) const;

    Endpoint& endpoint_;
    std::unordered_map<StreamId, Stream> streams_;
    std::unordered_map<OperationId, Started> started_;
    std::vector<OperationCompletion> refused_;
    TimePoint next_deadline_ = kNever;
};

}  // namespace innet
