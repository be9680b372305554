#pragma once
// Objects of one type with stable addresses, kept for reuse: no allocation once warm.

#include <cstddef>
#include <memory>
#include <vector>

namespace innet::tables {

/// Hands out objects from chunks that are never freed before the slab. `T` is reset by whoever
/// takes it.
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
    static constexpr std::size_t kChunk = 256;

    void grow() {
        chunks_.push_back(std::make_unique<T[]>(kChunk));
        // Room for every object ever made, so that `give` never allocates.
        free_.reserve(chunks_.size() * kChunk);
        for (std::size_t i = kChunk; i > 0; --i) free_.push_back(&chunks_.back()[i - 1]);
    }

    std::vector<std::unique_ptr<T[]>> chunks_;
    std::vector<T*> free_;
};

}  // namespace innet::tables
