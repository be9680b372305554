#pragma once
// What is known of name prefixes, found by longest prefix match.

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "switch_emulator/tables/name_prefixes.hpp"
#include "transport/wire/name.hpp"

namespace innet::tables {

/// Entries by the hashes of their prefixes; a hit is compared in full. `Entry` has a member
/// `wire::Name prefix`. Prefixes of more than `NamePrefixes::kMaxPrefixComponents` components never
/// match.
template <typename Entry>
class PrefixTable {
  public:
    /// The entry of exactly this prefix; null when there is none.
    const Entry* find(const wire::Name& prefix) const {
        const auto bucket = entries_.find(prefix.view().hash());
        if (bucket == entries_.end()) return nullptr;
        const auto entry = std::ranges::find(bucket->second, prefix, &Entry::prefix);
        return entry == bucket->second.end() ? nullptr : &*entry;
    }
    Entry* find(const wire::Name& prefix) {
        return const_cast<Entry*>(std::as_const(*this).find(prefix));
    }

    /// The same, added when there is none.
    Entry& at(const wire::Name& prefix) {
        if (Entry* known = find(prefix)) return *known;
        count(prefix, 1);
        ++size_;
        Entry& entry = entries_[prefix.view().hash()].emplace_back();
        entry.prefix = prefix;
        return entry;
    }

    /// Takes the entry of exactly this prefix away. Takes no time for the others.
    void erase(const wire::Name& prefix) {
        const auto bucket = entries_.find(prefix.view().hash());
        if (bucket == entries_.end()) return;
        const auto erased = std::erase_if(
            bucket->second, [&](const Entry& entry) { return entry.prefix == prefix; });
        if (erased == 0) return;
        count(prefix, -1);
        --size_;
        if (bucket->second.empty()) entries_.erase(bucket);
    }

    template <typename Predicate>
    void erase_if(Predicate&& predicate) {
        for (auto bucket = entries_.begin(); bucket != entries_.end();) {
            std::erase_if(bucket->second, [&](const Entry& entry) {
                if (!predicate(entry)) return false;
                count(entry.prefix, -1);
                --size_;
                return true;
            });
            bucket = bucket->second.empty() ? entries_.erase(bucket) : std::next(bucket);
        }
    }

    /// The entry of the longest prefix that has one; null when there is none.
    const Entry* longest_match(const NamePrefixes& name) const {
        for (std::size_t depth = name.depth() + 1; depth-- > 0;) {
            if (entries_by_depth_[depth] == 0) continue;
            const auto bucket = entries_.find(name.hash(depth));
            if (bucket == entries_.end()) continue;
            for (const Entry& entry : bucket->second) {
                if (entry.prefix.view() == name.prefix(depth)) return &entry;
            }
        }
        return nullptr;
    }

    template <typename Visit>
    void for_each(Visit&& visit) {
        for (auto& [hash, entries] : entries_) std::ranges::for_each(entries, visit);
    }
    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (const auto& [hash, entries] : entries_) std::ranges::for_each(entries, visit);
    }

    std::size_t size() const { return size_; }

  private:
    void count(const wire::Name& prefix, int change) {
        const std::size_t depth = prefix.view().size();
        if (depth < entries_by_depth_.size()) {
            entries_by_depth_[depth] += static_cast<std::uint32_t>(change);
        }
    }

    std::unordered_map<wire::NameHash, std::vector<Entry>> entries_;
    /// Number of entries with that many components: lengths without any are not looked up.
    std::array<std::uint32_t, NamePrefixes::kMaxPrefixComponents + 1> entries_by_depth_{};
    std::size_t size_ = 0;
};

}  // namespace innet::tables
