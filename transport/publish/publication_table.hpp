#pragma once
// The publications of one producer: by name, by sequence number, and by whom they exclude.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/publish/publication.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// The last components of a message's name, which it shares with messages of other types: its
/// receiver, its tag and its sequence number.
inline constexpr std::size_t kMessageEndComponents = 3;

/// Each call takes the time of the publications that it concerns, not of all. A publication's kind
/// is its name without the sequence number.
class PublicationTable {
  public:
    /// Kinds whose latest retired number is remembered. One more takes the place of the one that
    /// was added first: a late request for a number of that kind then waits until it expires, in
    /// place of being refused at once.
    static constexpr std::size_t kMaxWatermarks = 4096;

    struct Entry {
        std::uint64_t seq = 0;
        bool exclusive = true;
        bool is_message = false;
        std::shared_ptr<Publication> publication;

        /// True when this publication excludes that `tensor`, of the same sequence number, will
        /// ever be published. Names of another length are numbered apart: collectives and messages.
        /// A message has one type.
        bool excludes(wire::NameView tensor) const;
    };

    /// Its name must not be in the table, nor an exclusive one with its number if it is exclusive.
    void add(Entry entry);
    /// Null when there is none.
    const Entry* find(wire::NameView kind, std::uint64_t seq) const;
    const Entry* exclusive(std::uint64_t seq) const;
    /// The publication in place of `tensor`, with the same sequence number.
    const Entry* rival(wire::NameView tensor, std::uint64_t seq) const;

    /// Removes the publications with numbers up to `seq`: exclusive ones below `prefix`, and the
    /// others of the kind `prefix`. Their names' hashes.
    std::vector<wire::NameHash> retire(wire::NameView prefix, std::uint64_t seq);
    bool is_retired(wire::NameView kind, std::uint64_t seq) const;

    std::size_t watermarks() const { return watermarks_.size(); }
    template <typename Visit>
    void for_each(Visit visit) const {
        for (const auto& [kind, entries] : kinds_) {
            for (const auto& [seq, entry] : entries) visit(entry);
        }
    }

  private:
    using Entries = std::map<std::uint64_t, Entry>;  ///< never empty
    using Kinds = std::unordered_map<wire::NameHash, Entries>;

    /// Removes one publication, and its kind with the last of it: whether the kind has others.
    bool erase(Kinds::iterator kind, Entries::iterator entry);
    void raise_watermark(wire::NameHash kind, std::uint64_t seq);

    Kinds kinds_;
    std::map<std::uint64_t, const Entry*> exclusive_;
    std::unordered_multimap<wire::NameHash, const Entry*> messages_;  ///< by the end of their names
    std::unordered_map<wire::NameHash, std::uint64_t> watermarks_;
    std::deque<wire::NameHash> oldest_watermarks_;
};

}  // namespace innet
