#include "transport/publish/publication_table.hpp"

#include <algorithm>

namespace innet {
namespace {

/// The last components of a message's name; empty when it has fewer.
wire::NameView message_end(wire::NameView name) {
    const std::size_t components = name.size();
    if (components < kMessageEndComponents) return {};
    const std::size_t begin = name.prefix(components - kMessageEndComponents).value().size();
    return wire::NameView::trusted(name.value().subspan(begin));
}

}  // namespace

bool PublicationTable::Entry::excludes(wire::NameView tensor) const {
    const wire::NameView own = publication->name();
    return tensor.size() == own.size() &&
           (exclusive || (is_message && message_end(tensor) == message_end(own)));
}

void PublicationTable::add(Entry entry) {
    const wire::NameView name = entry.publication->name();
    const std::uint64_t seq = entry.seq;
    const auto added = kinds_[name.parent().hash()].emplace(seq, std::move(entry)).first;
    const Entry& kept = added->second;
    if (kept.exclusive) exclusive_.emplace(seq, &kept);
    if (kept.is_message) messages_.emplace(message_end(name).hash(), &kept);
}

const PublicationTable::Entry* PublicationTable::find(wire::NameView kind,
                                                      std::uint64_t seq) const {
    const auto entries = kinds_.find(kind.hash());
    if (entries == kinds_.end()) return nullptr;
    const auto found = entries->second.find(seq);
    return found == entries->second.end() ? nullptr : &found->second;
}

const PublicationTable::Entry* PublicationTable::exclusive(std::uint64_t seq) const {
    const auto found = exclusive_.find(seq);
    return found == exclusive_.end() ? nullptr : found->second;
}

const PublicationTable::Entry* PublicationTable::rival(wire::NameView tensor,
                                                       std::uint64_t seq) const {
    const Entry* const numbered = exclusive(seq);
    if (numbered != nullptr && numbered->excludes(tensor)) return numbered;
    if (messages_.empty()) return nullptr;
    const auto [from, to] = messages_.equal_range(message_end(tensor).hash());
    const auto found =
        std::find_if(from, to, [&](const auto& entry) { return entry.second->excludes(tensor); });
    return found == to ? nullptr : found->second;
}

std::vector<wire::NameHash> PublicationTable::retire(wire::NameView prefix, std::uint64_t seq) {
    std::vector<wire::NameHash> removed;
    // Whether its kind has others left.
    const auto remove = [&](Kinds::iterator kind, Entries::iterator entry) {
        removed.push_back(entry->second.publication->name().hash());
        raise_watermark(kind->first, seq);
        return erase(kind, entry);
    };
    auto numbered = exclusive_.begin();
    while (numbered != exclusive_.end() && numbered->first <= seq) {
        const Entry& entry = *(numbered++)->second;
        const wire::NameView name = entry.publication->name();
        if (!prefix.is_prefix_of(name)) continue;
        const auto kind = kinds_.find(name.parent().hash());
        remove(kind, kind->second.find(entry.seq));
    }
    const auto kind = kinds_.find(prefix.hash());
    if (kind == kinds_.end()) return removed;
    while (kind->second.begin()->first <= seq && remove(kind, kind->second.begin())) {
    }
    return removed;
}

bool PublicationTable::is_retired(wire::NameView kind, std::uint64_t seq) const {
    const auto found = watermarks_.find(kind.hash());
    return found != watermarks_.end() && seq <= found->second;
}

bool PublicationTable::erase(Kinds::iterator kind, Entries::iterator entry) {
    const Entry& erased = entry->second;
    if (erased.exclusive) exclusive_.erase(erased.seq);
    if (erased.is_message) {
        const auto [from, to] =
            messages_.equal_range(message_end(erased.publication->name()).hash());
        messages_.erase(
            std::find_if(from, to, [&](const auto& one) { return one.second == &erased; }));
    }
    kind->second.erase(entry);
    if (!kind->second.empty()) return true;
    kinds_.erase(kind);
    return false;
}

void PublicationTable::raise_watermark(wire::NameHash kind, std::uint64_t seq) {
    const auto [watermark, is_new] = watermarks_.try_emplace(kind, seq);
    watermark->second = std::max(watermark->second, seq);
    if (!is_new) return;
    oldest_watermarks_.push_back(kind);
    if (oldest_watermarks_.size() <= kMaxWatermarks) return;
    watermarks_.erase(oldest_watermarks_.front());
    oldest_watermarks_.pop_front();
}

}  // namespace innet
