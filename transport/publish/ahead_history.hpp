#pragma once
// Whether Data that is sent ahead of requests for it saves them.

#include <algorithm>
#include <cstdint>

namespace innet {

/// Of one kind of Data: when too many were requested although they had been sent ahead, only one
/// of several more is: the node that adds them is not the next one, or has no room.
class AheadHistory {
  public:
    /// Whether the next one is to be sent ahead. Counts it as sent if so.
    bool take_turn() {
        if (ended_) return false;
        if (in_vain_ >= kMostInVain && ++withheld_ % kTryEvery != 0) return false;
        in_vain_ -= std::min(in_vain_, 1U);
        return true;
    }
    /// One that was sent ahead was requested.
    void on_requested() { in_vain_ = std::min(in_vain_ + 2, kMostInVain); }
    /// None is sent ahead any more.
    void end() { ended_ = true; }

  private:
    static constexpr std::uint32_t kMostInVain = 8;
    static constexpr std::uint32_t kTryEvery = 16;

    std::uint32_t in_vain_ = 0;   ///< how many more were requested than not
    std::uint32_t withheld_ = 0;  ///< since the first that was not sent ahead
    bool ended_ = false;
};

}  // namespace innet
