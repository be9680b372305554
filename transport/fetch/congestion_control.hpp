#pragma once
// How many requests a flow may have in flight. A strategy: the flow reports what happens, the
// algorithm answers with a window.

#include <cstdint>

#include "transport/fetch/rtt_estimator.hpp"
#include "transport/time.hpp"

namespace innet {

class CongestionControl {
  public:
    virtual ~CongestionControl() = default;

    /// Requests that may be in flight at once.
    virtual std::uint32_t window() const = 0;

    /// An answer arrived. `rtt` has its sample already, if it gave one (answers to held or repeated
    /// requests do not: they measure a late rank, not the path). `window_limited`: the window kept
    /// requests back, so the answer says something about it.
    virtual void on_answer(TimePoint now, const RttEstimator& rtt, bool marked,
                           bool window_limited) = 0;

    /// A request was lost, by gap or by timeout.
    virtual void on_loss(TimePoint now, const RttEstimator& rtt) = 0;

    /// A node without room refused a request (Nack Congestion or NoSlot).
    virtual void on_refusal(TimePoint now, const RttEstimator& rtt) = 0;
};

}  // namespace innet
