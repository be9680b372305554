#include "transport/endpoint/operation_streams.hpp"

#include <algorithm>
#include <utility>

namespace innet {

bool OperationStreams::Stream::may_start(std::uint64_t seq) const {
    return std::ranges::all_of(in_flight, [&](std::uint64_t other) { return seq < other + depth; });
}

bool OperationStreams::Stream::take_reserved(std::uint64_t seq) {
    if (std::erase(reserved, seq) == 0) return false;
    std::erase(in_flight, seq);
    return true;
}

void OperationStreams::open(StreamId stream, std::vector<wire::Name> prefixes,
                            std::uint32_t depth) {
    Stream& opened = streams_[stream];
    opened.prefixes = std::move(prefixes);
    opened.depth = std::max<std::uint32_t>(1, depth);
}

void OperationStreams::close(StreamId id) {
    const auto closed = streams_.extract(id);
    if (closed.empty()) return;
    for (const StreamedOperation& operation : closed.mapped().waiting) {
        refused_.push_back({operation.id, OperationStatus::kCancelled, "its group is closed"});
    }
}

void OperationStreams::submit(StreamId id, StreamedOperation operation, TimePoint now) {
    Stream& stream = streams_[id];
    if (stream.take_reserved(operation.seq) ||
        (stream.waiting.empty() && stream.may_start(operation.seq))) {
        start(id, stream, std::move(operation), now);
    } else {
        stream.waiting.push_back(std::move(operation));
    }
}

void OperationStreams::release(StreamId id, std::uint64_t seq, TimePoint now) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    if (found->second.take_reserved(seq)) start_waiting(id, found->second, now);
}

void OperationStreams::start(StreamId id, Stream& stream, StreamedOperation&& operation,
                             TimePoint now) {
    stream.in_flight.push_back(operation.seq);
    for (std::uint32_t i = 1; i <= operation.reserves; ++i) {
        stream.in_flight.push_back(operation.seq + i);
        stream.reserved.push_back(operation.seq + i);
    }
    started_[operation.id] = {id, operation.seq, operation.synchronising};
    endpoint_.submit(operation.id, std::move(operation.spec), now);
}

void OperationStreams::cancel(OperationId id, TimePoint now) {
    for (auto& [stream_id, stream] : streams_) {
        const auto waiting = std::ranges::find(stream.waiting, id, &StreamedOperation::id);
        if (waiting != stream.waiting.end()) {
            stream.waiting.erase(waiting);
            refused_.push_back({id, OperationStatus::kCancelled, "cancelled before its turn"});
            return;
        }
    }
    endpoint_.cancel(id, now);
}

void OperationStreams::abort(const wire::Name& prefix, const std::string& why, TimePoint now) {
    for (auto& [stream_id, stream] : streams_) {
        std::erase_if(stream.waiting, [&](const StreamedOperation& operation) {
            const auto& publication = operation.spec.publication;
            const bool ends = publication ? prefix.view().is_prefix_of(publication->prefix.view())
                                          : concerns(operation.spec.fetches, prefix);
            if (ends) refused_.push_back({operation.id, OperationStatus::kAborted, why});
            return ends;
        });
    }
    endpoint_.abort(prefix, why, now);
}

void OperationStreams::take_completions(std::vector<OperationCompletion>& into, TimePoint now) {
    std::size_t seen = into.size();
    std::ranges::move(refused_, std::back_inserter(into));
    refused_.clear();
    // Starting an operation can end it at once (a refusal, an empty tensor), which starts the next.
    while (true) {
        endpoint_.take_completions(into);
        if (seen == into.size()) {
            return;
        }
        for (; seen < into.size(); ++seen) {
            on_ended(into[seen], now);
        }
    }
}

void OperationStreams::on_ended(const OperationCompletion& completion, TimePoint now) {
    const auto found = started_.find(completion.id);
    if (found == started_.end()) {
        return;
    }
    const Started ended = found->second;
    started_.erase(found);
    const auto open = streams_.find(ended.stream);
    if (open == streams_.end()) {
        return;
    }
    Stream& stream = open->second;
    std::erase(stream.in_flight, ended.seq);
    if (completion.status == OperationStatus::kDone && ended.synchronising &&
        ended.seq >= stream.depth) {
        for (const wire::Name& prefix : stream.prefixes) {
            endpoint_.retire(prefix, ended.seq - stream.depth);
        }
    }
    start_waiting(ended.stream, stream, now);
}

void OperationStreams::start_waiting(StreamId id, Stream& stream, TimePoint now) {
    while (!stream.waiting.empty() && stream.may_start(stream.waiting.front().seq)) {
        StreamedOperation next = std::move(stream.waiting.front());
        stream.waiting.pop_front();
        start(id, stream, std::move(next), now);
    }
}

}  // namespace innet
