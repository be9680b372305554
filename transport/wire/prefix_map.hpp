#pragma once
// Values of name prefixes, found by longest prefix match.

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet::wire {

/// A look-up walks along the name, as deep as prefixes are, with one hash look-up for each depth
/// that any prefix has.
template <typename Value>
class PrefixMap {
  public:
    /// Inserts or replaces the value of `prefix`. The reference stays valid until the prefix is
    /// erased or replaced.
    Value& put(const Name& prefix, Value value) {
        erase(prefix);
        const std::size_t depth = prefix.view().size();
        if (of_depth_.size() <= depth) of_depth_.resize(depth + 1);
        ++of_depth_[depth];
        return by_hash_.insert_or_assign(prefix.view().hash(), Entry{prefix, std::move(value)})
            .first->second.value;
    }

    void erase(const Name& prefix) {
        const auto found = by_hash_.find(prefix.view().hash());
        if (found == by_hash_.end() || found->second.prefix != prefix) return;
        by_hash_.erase(found);
        --of_depth_[prefix.view().size()];
    }

    /// The value of exactly this prefix; null when it has none.
    const Value* find(const Name& prefix) const {
        const auto found = by_hash_.find(prefix.view().hash());
        const bool is_there = found != by_hash_.end() && found->second.prefix == prefix;
        return is_there ? &found->second.value : nullptr;
    }

    /// Of the longest prefix of `name`; null when it is under none.
    const Value* longest_of(NameView name) const {
        if (by_hash_.empty()) return nullptr;
        const Value* longest = nullptr;
        NameHasher hasher;
        Reader reader(name.value());
        for (std::size_t depth = 0; depth < of_depth_.size(); ++depth) {
            if (of_depth_[depth] > 0) {
                const auto found = by_hash_.find(hasher.hash());
                if (found != by_hash_.end() && found->second.prefix.view().is_prefix_of(name)) {
                    longest = &found->second.value;
                }
            }
            const auto component = reader.next();
            if (!component) break;
            hasher.add(component->whole);
        }
        return longest;
    }

    template <typename Visit>
    void for_each(Visit visit) const {
        for (const auto& [hash, entry] : by_hash_) visit(entry.value);
    }

  private:
    struct Entry {
        Name prefix;
        Value value;
    };

    std::unordered_map<NameHash, Entry> by_hash_;
    std::vector<std::size_t> of_depth_;  ///< number of prefixes, by number of components
};

}  // namespace innet::wire
