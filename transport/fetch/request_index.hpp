#pragma once
// Hash index from a request's key to its place in a slab: open addressing, no allocation once warm.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace innet {

class RequestIndex {
  public:
    static constexpr std::uint32_t kNone = 0xffff'ffff;

    /// The place of `key`, or kNone.
    std::uint32_t find(std::uint64_t key) const {
        if (cells_.empty()) return kNone;
        for (std::size_t at = home(key);; at = next(at)) {
            if (cells_[at].place == kNone) return kNone;
            if (cells_[at].key == key) return cells_[at].place;
        }
    }

    /// `key` must not be there yet.
    void insert(std::uint64_t key, std::uint32_t place) {
        if (2 * (size_ + 1) > cells_.size()) grow();
        put({key, place});
        ++size_;
    }

    /// `key` must be there. Later cells of its run move up, so that no tombstones pile up.
    void erase(std::uint64_t key) {
        std::size_t hole = home(key);
        while (cells_[hole].key != key || cells_[hole].place == kNone) hole = next(hole);
        for (std::size_t at = next(hole); cells_[at].place != kNone; at = next(at)) {
            const std::size_t distance_from_home = (at - home(cells_[at].key)) & mask();
            const std::size_t distance_from_hole = (at - hole) & mask();
            if (distance_from_home < distance_from_hole) continue;
            cells_[hole] = cells_[at];
            hole = at;
        }
        cells_[hole].place = kNone;
        --size_;
    }

    std::size_t size() const { return size_; }

  private:
    struct Cell {
        std::uint64_t key = 0;
        std::uint32_t place = kNone;
    };

    std::size_t mask() const { return cells_.size() - 1; }
    std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
    std::size_t home(std::uint64_t key) const {
        // Fibonacci hashing: keys are often consecutive numbers.
        return static_cast<std::size_t>((key * 0x9e37'79b9'7f4a'7c15ULL) >> 32U) & mask();
    }

    void put(Cell cell) {
        std::size_t at = home(cell.key);
        while (cells_[at].place != kNone) at = next(at);
        cells_[at] = cell;
    }

    void grow() {
        std::vector<Cell> old = std::exchange(cells_, {});
        cells_.resize(old.empty() ? 64 : 2 * old.size());
        for (const Cell& cell : old) {
            if (cell.place != kNone) put(cell);
        }
    }

    std::vector<Cell> cells_;
    std::size_t size_ = 0;
};

}  // namespace innet
