#include "switch_emulator/simulation/stream/stream_table.hpp"

#include <algorithm>
#include <utility>

namespace innet::simulation::stream {

StreamId StreamTable::add(const SenderOptions& options, Paths paths) {
    streams_.emplace_back(options, std::move(paths));
    deadlines_.add();
    return static_cast<StreamId>(streams_.size() - 1);
}

void StreamTable::write(StreamId stream, std::uint64_t bytes, TimePoint now) {
    streams_[stream].sender.write(bytes, now);
    send(stream, now);
    set_deadline(stream);
}

void StreamTable::watch(StreamId stream, std::uint64_t bytes, std::uint64_t token) {
    auto& watches = streams_[stream].watches;
    const auto place = std::ranges::upper_bound(watches, bytes, {}, &Watch::bytes);
    watches.insert(place, {bytes, token});
    report_arrived(streams_[stream]);
}

void StreamTable::on_packet(LinkIndex link, const PacketRef& packet, TimePoint now) {
    if (const auto segment = parse_data(packet); segment && segment->stream < streams_.size()) {
        on_data(link, packet, *segment, now);
    } else if (const auto acknowledgement = parse_acknowledgement(packet);
               acknowledgement && acknowledgement->stream < streams_.size()) {
        on_acknowledgement(link, packet, *acknowledgement, now);
    }
}

void StreamTable::on_data(LinkIndex link, const PacketRef& packet, const DataSegment& segment,
                          TimePoint now) {
    Stream& stream = streams_[segment.stream];
    if (forward(stream.paths.forth, link, packet)) {
        return;
    }
    if (stream.receiver.on_segment(segment, now)) {
        wire_.put(stream.paths.back.front(),
                  encode(stream.receiver.acknowledge(segment.stream), pool_));
    }
    report_arrived(stream);
    set_deadline(segment.stream);
}

void StreamTable::on_acknowledgement(LinkIndex link, const PacketRef& packet,
                                     const Acknowledgement& acknowledgement, TimePoint now) {
    Stream& stream = streams_[acknowledgement.stream];
    if (forward(stream.paths.back, link, packet)) {
        return;
    }
    stream.sender.on_acknowledgement(acknowledgement, now);
    process_acknowledgement(acknowledgement.stream, now);
    set_deadline(acknowledgement.stream);
}

void StreamTable::process_acknowledgement(StreamId id, TimePoint now) {
    Stream& stream = streams_[id];
    if (stream.max_processing <= Duration::zero()) {
        send(id, now);
    } else if (stream.blocked_until == kNever) {
        const auto most = static_cast<std::uint64_t>(stream.max_processing.count());
        stream.blocked_until =
            now + Duration(static_cast<Duration::rep>(stream.random.below(most + 1)));
    }
}

bool StreamTable::forward(const std::vector<LinkIndex>& path, LinkIndex link,
                          const PacketRef& packet) {
    const auto place = std::ranges::find(path, link);
    if (place == path.end() || std::next(place) == path.end()) {
        return false;
    }
    wire_.put(*std::next(place), packet);
    return true;
}

void StreamTable::send(StreamId id, TimePoint now) {
    Stream& stream = streams_[id];
    const LinkIndex first = stream.paths.forth.front();
    stream.blocked_until = kNever;
    while (true) {
        if (const Duration wait = wire_.time_to_room(first); wait > Duration::zero()) {
            stream.blocked_until = now + wait;
            return;
        }
        const auto range = stream.sender.take_segment(now);
        if (!range) {
            return;
        }
        wire_.put(first, encode(DataSegment{id, static_cast<std::uint32_t>(range->begin),
                                            static_cast<std::uint32_t>(range->end - range->begin)},
                                pool_));
    }
}

void StreamTable::on_timer(TimePoint now) {
    while (deadlines_.earliest() <= now) {
        const StreamId id = deadlines_.first();
        Stream& stream = streams_[id];
        if (stream.receiver.next_deadline() <= now) {
            wire_.put(stream.paths.back.front(), encode(stream.receiver.acknowledge(id), pool_));
        }
        stream.sender.on_timer(now);
        send(id, now);
        set_deadline(id);
    }
}

void StreamTable::report_arrived(Stream& stream) {
    while (!stream.watches.empty() && stream.watches.front().bytes <= stream.receiver.arrived()) {
        arrived_.push_back(stream.watches.front().token);
        stream.watches.pop_front();
    }
}

void StreamTable::set_deadline(StreamId id) {
    const Stream& stream = streams_[id];
    deadlines_.set(id, std::min({stream.sender.next_deadline(), stream.receiver.next_deadline(),
                                 stream.blocked_until}));
}

}  // namespace innet::simulation::stream
