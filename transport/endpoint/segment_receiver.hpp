#pragma once
// Takes the answers of a fetch one by one, where a buffer will not do.

#include <cstdint>

#include "transport/endpoint/answer_check.hpp"
#include "transport/wire/data.hpp"

namespace innet {

class SegmentReceiver {
  public:
    virtual ~SegmentReceiver() = default;
    /// False: the answer is from another producer; the receiver keeps waiting for the right one.
    virtual bool accepts(std::uint64_t segment, const wire::DataView& data) = 0;
    /// The answer for `segment`, which `accepts` has let pass. Any other status than kDone ends the
    /// operation with it.
    virtual AnswerCheck receive(std::uint64_t segment, const wire::DataView& data) = 0;
    /// Whether this accepts the answer for `segment` without its signature.
    virtual bool vouches_for(std::uint64_t segment, const wire::DataView& data) = 0;
};

}  // namespace innet
