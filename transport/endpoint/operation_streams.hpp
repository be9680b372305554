#pragma once
// Bounds how many operations of a group are under way, and tells when their tensors can be dropped.
//
// A stream has at most `depth` operations in flight; later ones wait for their turn. When an
// operation ends whose end proves that every rank had started it (a synchronising one, such as an
// allreduce), every rank had ended all operations `depth` before it: nobody can still need those
// tensors.

#include <cstdint>
#include <deque>
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
};

class OperationStreams {
  public:
    explicit OperationStreams(Endpoint& endpoint) : endpoint_(endpoint) {}

    /// `prefixes`: the producer prefixes under which operations of the stream publish.
    void open(StreamId stream, std::vector<wire::Name> prefixes, std::uint32_t depth);
    void submit(StreamId stream, StreamedOperation operation, TimePoint now);
    void cancel(OperationId id, TimePoint now);
    void abort_all(const std::string& why, TimePoint now);
    /// The endpoint's completions, after starting what waited for them.
    void take_completions(std::vector<OperationCompletion>& into, TimePoint now);

  private:
    struct Stream {
        std::vector<wire::Name> prefixes;
        std::uint32_t depth = 1;
        std::uint32_t in_flight = 0;
        std::deque<StreamedOperation> waiting;
    };
    struct Started {
        StreamId stream = 0;
        std::uint64_t seq = 0;
        bool synchronising = false;
    };

    void start(StreamId id, Stream& stream, StreamedOperation&& operation, TimePoint now);
    void on_ended(const OperationCompletion& completion, TimePoint now);

    Endpoint& endpoint_;
    std::unordered_map<StreamId, Stream> streams_;
    std::unordered_map<OperationId, Started> started_;
    std::vector<OperationCompletion> refused_;
};

}  // namespace innet
