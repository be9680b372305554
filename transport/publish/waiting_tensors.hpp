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

/// Requested segments of one unpublished tensor.
struct WaitingTensor {
    wire::Name name;
    std::uint64_t seq = 0;
    TimePoint expires{};
    std::set<std::uint64_t> segments;
};

/// Indexed by sequence number and name. An addition takes logarithmic time and removes up to
/// two expired tensors: entries of expired Interests do not accumulate, and no addition scans
/// all.
class WaitingTensors {
  public:
    /// Maximum pending segments. At the limit, a new one replaces those of another tensor, whose
    /// requesters retransmit; without another tensor, it is not recorded.
    static constexpr std::size_t kMaxSegments = 65536;

    void add(wire::NameView tensor, std::uint64_t seq, std::uint64_t segment, TimePoint expires,
             TimePoint now);

    /// No Interest for the segment is pending any longer.
    void remove(wire::NameView tensor, std::uint64_t seq, std::uint64_t segment);

    /// Removes and returns the tensors that satisfy `predicate(tensor)`.
    template <typename Predicate>
    std::vector<WaitingTensor> take_if(Predicate predicate) {
        return take_between(by_seq_.begin(), by_seq_.end(), predicate);
    }
    /// Restricts `take_if` to one sequence number, in logarithmic time.
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
    std::list<Key> turns_;  ///< the front is checked next
    std::size_t segments_ = 0;
};

}  // namespace innet
