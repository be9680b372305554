#pragma once
// Segments of unpublished tensors that pending Interests ask for.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Segments of one unpublished tensor that somebody asked for.
struct WaitingTensor {
    wire::Name name;
    std::uint64_t seq = 0;
    TimePoint expires{};
    std::set<std::uint64_t> segments;
};

/// Indexed by sequence number and name. An addition takes logarithmic time in the number of tensors
/// and looks at two old ones, of which it drops the expired: entries of Interests that are gone do
/// not pile up, and no addition looks at all of them.
class WaitingTensors {
  public:
    /// Segments remembered. One more takes the place of another tensor's, whose requesters repeat
    /// their Interests and find the tensor then. Without another tensor it is not remembered.
    static constexpr std::size_t kMaxSegments = 65536;

    void add(wire::NameView tensor, std::uint64_t seq, std::uint64_t segment, TimePoint expires,
             TimePoint now);

    /// Nobody waits for the segment any longer.
    void remove(wire::NameView tensor, std::uint64_t seq, std::uint64_t segment);

    /// Hands over and forgets the tensors that satisfy `predicate(tensor)`.
    template <typename Predicate>
    std::vector<WaitingTensor> take_if(Predicate predicate) {
        return take_between(by_seq_.begin(), by_seq_.end(), predicate);
    }
    /// The same of those with this sequence number, without a look at the others.
    template <typename Predicate>
    std::vector<WaitingTensor> take_if(std::uint64_t seq, Predicate predicate) {
        return take_between(by_seq_.lower_bound({seq, 0}),
                            by_seq_.upper_bound({seq, ~wire::NameHash{0}}), predicate);
    }

    std::size_t tensors() const { return by_seq_.size(); }
    std::size_t segments() const { return segments_; }

  private:
    using Key = std::pair<std::uint64_t, wire::NameHash>;
    struct Entry {
        WaitingTensor tensor;
        std::list<Key>::iterator turn;
    };
    using Entries = std::map<Key, Entry>;

    template <typename Predicate>
    std::vector<WaitingTensor> take_between(Entries::iterator from, Entries::iterator end,
                                            Predicate predicate) {
        std::vector<WaitingTensor> taken;
        while (from != end) {
            const auto entry = from++;
            if (!predicate(std::as_const(entry->second.tensor))) continue;
            taken.push_back(std::move(entry->second.tensor));
            segments_ -= taken.back().segments.size();
            erase(entry);
        }
        return taken;
    }
    void erase(Entries::iterator entry) {
        turns_.erase(entry->second.turn);
        by_seq_.erase(entry);
    }
    void drop_expired(TimePoint now);
    void make_room(const Key& added);
    void drop(Entries::iterator entry);

    Entries by_seq_;
    std::list<Key> turns_;  ///< the front is looked at next
    std::size_t segments_ = 0;
};

}  // namespace innet
