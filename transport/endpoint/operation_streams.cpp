#include "transport/endpoint/operation_streams.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace innet {

namespace {

std::string sequence_text(std::uint64_t seq) { return "seq=" + std::to_string(seq); }

}  // namespace

/// Why operations queue behind this one. One that has just started late knows the missing ranks
/// less well than the one before it.
std::string OperationStreams::Started::cause(const MissingParts& missing) const {
    if (!missing.names_late && !after.empty()) return after;
    return sequence_text(seq) + ": " + missing.detail;
}

bool OperationStreams::Stream::claim(std::uint64_t seq, std::uint32_t reserves) {
    if (seq < next_seq) return std::erase(unused, seq) > 0;
    for (; next_seq < seq; ++next_seq) unused.push_back(next_seq);
    for (++next_seq; next_seq <= seq + reserves; ++next_seq) unused.push_back(next_seq);
    return true;
}

/// A reserved one precedes those called after it.
void OperationStreams::Stream::wait(Waiting&& later) {
    auto behind = waiting.end();  // the place of nearly all: numbers ascend
    while (behind != waiting.begin() && std::prev(behind)->operation.seq > later.operation.seq) {
        --behind;
    }
    waiting.insert(behind, std::move(later));
}

/// Reserved ones start unconditionally, so they count as if they started now.
bool OperationStreams::Stream::may_start(const StreamedOperation& operation) const {
    const std::uint64_t last = operation.seq + operation.reserves;
    return std::ranges::all_of(in_flight,
                               [&](std::uint64_t other) { return last < other + depth; });
}

bool OperationStreams::Stream::take_reserved(std::uint64_t seq) {
    if (std::erase(reserved, seq) == 0) return false;
    std::erase(in_flight, seq);
    return true;
}

/// Keeps a copy of the publication for the other ranks, and no memory of the caller's.
void OperationStreams::Waiting::end() {
    ended = true;
    operation.synchronising = false;
    operation.reserves = 0;
    operation.spec.fetches.clear();
    operation.spec.in_place = false;
    if (!operation.spec.publication) return;
    PublicationSpec& publication = *operation.spec.publication;
    tensor.assign(publication.tensor.begin(), publication.tensor.end());
    publication.tensor = tensor;
    segment_ends.assign(publication.segment_ends.begin(), publication.segment_ends.end());
    publication.segment_ends = segment_ends;
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
    for (const Waiting& waiting : closed.mapped().waiting) {
        if (waiting.ended) continue;
        refused_.push_back(
            {waiting.operation.id, OperationStatus::kCancelled, "its group is closed"});
    }
}

void OperationStreams::submit(StreamId id, StreamedOperation operation, TimePoint now) {
    const auto open = streams_.find(id);
    if (open == streams_.end()) {
        refused_.push_back({operation.id, OperationStatus::kCancelled, "its group is closed"});
        return;
    }
    if (!open->second.claim(operation.seq, operation.reserves)) {
        refused_.push_back({operation.id, OperationStatus::kCancelled,
                            sequence_text(operation.seq) + " has been given up"});
        return;
    }
    Waiting waiting;
    waiting.operation = std::move(operation);
    enter(id, open->second, std::move(waiting), now);
}

void OperationStreams::fail(StreamId id, FailureSpec failure, TimePoint now) {
    const auto open = streams_.find(id);
    if (open == streams_.end() || !open->second.claim(failure.seq, 0)) return;
    failure.prefixes = open->second.prefixes;
    Waiting waiting;
    waiting.ended = true;  // its caller knows
    waiting.operation.seq = failure.seq;
    waiting.operation.failure = std::move(failure);
    enter(id, open->second, std::move(waiting), now);
}

void OperationStreams::enter(StreamId id, Stream& stream, Waiting&& waiting, TimePoint now) {
    if (stream.take_reserved(waiting.operation.seq) ||
        (stream.waiting.empty() && stream.may_start(waiting.operation))) {
        start(id, stream, std::move(waiting), now);
        start_waiting(id, stream, now);  // a failure keeps no place
    } else {
        next_deadline_ = std::min(next_deadline_, waiting.deadline());
        stream.wait(std::move(waiting));
    }
}

void OperationStreams::release(StreamId id, std::uint64_t seq, TimePoint now) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    std::erase(found->second.unused, seq);
    if (found->second.take_reserved(seq)) start_waiting(id, found->second, now);
}

void OperationStreams::start(StreamId id, Stream& stream, Waiting&& waiting, TimePoint now,
                             const std::string& after) {
    StreamedOperation& operation = waiting.operation;
    if (operation.failure) {
        stream.take_reserved(operation.seq);
        endpoint_.fail(*operation.failure);
        return;
    }
    stream.in_flight.push_back(operation.seq);
    for (std::uint32_t i = 1; i <= operation.reserves; ++i) {
        stream.in_flight.push_back(operation.seq + i);
        stream.reserved.push_back(operation.seq + i);
    }
    started_[operation.id] = {id, operation.seq, operation.synchronising, waiting.ended, after};
    // Under a single prefix, the publication carries the description.
    const bool publishes_call = operation.spec.publication && stream.prefixes.size() == 1;
    // One that has ended fetches nothing: the endpoint is done with its copies when this returns.
    endpoint_.submit(operation.id, std::move(operation.spec), now);
    if (!publishes_call && !operation.call.empty()) {
        announce(stream, operation.seq, std::move(operation.call));
    }
}

void OperationStreams::announce(const Stream& stream, std::uint64_t seq, std::string call) {
    endpoint_.fail({stream.prefixes, {}, seq, wire::TensorErrorCode::kMismatch, std::move(call)});
}

void OperationStreams::cancel(OperationId id, TimePoint now) {
    for (auto& [stream_id, stream] : streams_) {
        const auto found = std::ranges::find(
            stream.waiting, id, [](const Waiting& waiting) { return waiting.operation.id; });
        if (found == stream.waiting.end()) continue;
        if (found->ended) return;
        refused_.push_back({id, OperationStatus::kCancelled, "cancelled before its turn"});
        found->end();
        if (!found->has_contribution()) stream.waiting.erase(found);
        return;
    }
    endpoint_.cancel(id, now);
}

void OperationStreams::abort(const wire::Name& prefix, const std::string& why, TimePoint now) {
    for (auto& [stream_id, stream] : streams_) {
        std::erase_if(stream.waiting, [&](const Waiting& waiting) {
            const OperationSpec& spec = waiting.operation.spec;
            const bool ends = spec.publication
                                  ? prefix.view().is_prefix_of(spec.publication->prefix.view())
                                  : concerns(spec.fetches, prefix);
            if (ends && !waiting.ended) {
                refused_.push_back({waiting.operation.id, OperationStatus::kAborted, why});
            }
            return ends;
        });
    }
    endpoint_.abort(prefix, why, now);
}

void OperationStreams::on_timer(TimePoint now) {
    if (now < next_deadline_) return;
    next_deadline_ = kNever;
    for (auto& [id, stream] : streams_) expire(id, stream, now);
}

void OperationStreams::expire(StreamId id, Stream& stream, TimePoint now) {
    std::string why;
    for (Waiting& waiting : stream.waiting) {
        if (waiting.deadline() > now) {
            next_deadline_ = std::min(next_deadline_, waiting.deadline());
            continue;
        }
        if (why.empty()) why = why_waiting(id, stream, now);
        refused_.push_back(
            {waiting.operation.id, OperationStatus::kDeadlineExceeded, why, {.ended = now}});
        waiting.end();
    }
    std::erase_if(stream.waiting, [](const Waiting& waiting) {
        return waiting.ended && !waiting.has_contribution();
    });
}

std::string OperationStreams::why_waiting(StreamId id, const Stream& stream, TimePoint now) const {
    const std::string not_yet = "it was queued behind ";
    const std::uint64_t first = *std::ranges::min_element(stream.in_flight);
    const auto found = std::ranges::find_if(started_, [&](const auto& started) {
        return started.second.stream == id && started.second.seq == first;
    });
    if (found == started_.end()) return not_yet + sequence_text(first) + ", which has not started";
    const auto missing = endpoint_.missing(found->first, now);
    if (!missing) return not_yet + sequence_text(first) + ", which had just ended";
    return not_yet + found->second.cause(*missing);
}

void OperationStreams::take_completions(std::vector<OperationCompletion>& into, TimePoint now) {
    std::ranges::move(refused_, std::back_inserter(into));
    refused_.clear();
    std::size_t seen = into.size();
    // Starting an operation can end it at once (a refusal, an empty tensor), which starts the next.
    for (endpoint_.take_completions(into); seen < into.size(); endpoint_.take_completions(into)) {
        while (seen < into.size()) {
            if (on_ended(into[seen], now)) {
                ++seen;
            } else {
                into.erase(into.begin() + static_cast<std::ptrdiff_t>(seen));
            }
        }
    }
}

bool OperationStreams::on_ended(OperationCompletion& completion, TimePoint now) {
    const auto found = started_.extract(completion.id);
    if (found.empty()) return true;
    const Started& ended = found.mapped();
    std::string cause = ended.reported ? ended.after : "";
    if (completion.status == OperationStatus::kDeadlineExceeded) {
        cause = ended.cause({completion.detail, completion.names_late});
        if (!completion.names_late && !ended.after.empty()) {
            completion.detail = "it started late, behind " + ended.after;
        }
    }
    const auto open = streams_.find(ended.stream);
    if (open == streams_.end()) return !ended.reported;
    Stream& stream = open->second;
    std::erase(stream.in_flight, ended.seq);
    if (completion.status == OperationStatus::kDone && ended.synchronising &&
        ended.seq >= stream.depth) {
        for (const wire::Name& prefix : stream.prefixes) {
            endpoint_.retire(prefix, ended.seq - stream.depth);
        }
    }
    start_waiting(ended.stream, stream, now, cause);
    return !ended.reported;
}

void OperationStreams::start_waiting(StreamId id, Stream& stream, TimePoint now,
                                     const std::string& after) {
    while (!stream.waiting.empty() && stream.may_start(stream.waiting.front().operation)) {
        Waiting next = std::move(stream.waiting.front());
        stream.waiting.pop_front();
        start(id, stream, std::move(next), now, after);
    }
}

}  // namespace innet
