#pragma once
// Objects of one type with stable addresses, kept for reuse: no allocation once warm.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace innet::tables {

/// Allocates objects from ever larger chunks that are never freed before the slab. The caller
/// resets the `T` that it takes.
template <typename T>
class Slab {
  public:
    T& take() {
        if (free_.empty()) grow();
        T* object = free_.back();
        free_.pop_back();
        return *object;
    }

    void give(T& object) { free_.push_back(&object); }

  private:
    static constexpr std::size_t kFirstChunk = 8;
    static constexpr std::size_t kLargestChunk = 256;

    void grow() {
        const std::size_t count = std::clamp(made_, kFirstChunk, kLargestChunk);
        made_ += count;
        chunks_.push_back(std::make_unique<T[]>(count));
        // Room for every object ever made, so that `give` never allocates.
        free_.reserve(made_);
        for (std::size_t i = count; i > 0; --i) free_.push_back(&chunks_.back()[i - 1]);
    }

    std::vector<std::unique_ptr<T[]>> chunks_;
    std::vector<T*> free_;
    std::size_t made_ = 0;
};

}  // namespace innet::tables
