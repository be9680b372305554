#pragma once
// Requests of the application and the reducer to their node, queued until the current packet is
// processed.

#include <cstdint>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/wire/lp.hpp"
#include "transport/wire/name.hpp"

namespace innet::forwarding {

struct Request {
    enum class Kind : std::uint8_t { kExpress, kCancel, kPutData, kOfferData, kHold, kNack };

    Kind kind = Kind::kExpress;
    RequesterId requester = RequesterId::kApplication;
    bool must_be_fresh = false;                         ///< kExpress
    bool to_neighbour = false;                          ///< kExpress
    bool marked = false;                                ///< kPutData
    wire::NackReason reason = wire::NackReason::kNone;  ///< kNack
    std::size_t text_offset = 0;                        ///< of the name, then of the hint or label
    std::size_t name_size = 0;
    std::size_t argument_size = 0;  ///< hint (kExpress, kOfferData) or label (kHold)
    Duration lifetime{0};           ///< kExpress
    PacketRef data{};               ///< kPutData, kOfferData; kExpress: attached roots
};

/// Requests in order of arrival, with a copy of the names they were made with. Memory is kept for
/// reuse.
class RequestQueue {
  public:
    bool empty() const { return waiting_.requests.empty(); }

    void add(Request request, wire::ByteView name, wire::ByteView argument);

    /// Runs the queued requests: `run(request, name, argument)`. Requests that are queued meanwhile
    /// wait for the next call.
    template <typename Run>
    void run_waiting(Run&& run) {
        std::swap(waiting_, running_);
        for (const Request& request : running_.requests) {
            const auto name =
                wire::ByteView(running_.text).subspan(request.text_offset, request.name_size);
            const auto argument =
                wire::ByteView(running_.text)
                    .subspan(request.text_offset + request.name_size, request.argument_size);
            run(request, name, argument);
        }
        running_.requests.clear();
        running_.text.clear();
    }

  private:
    struct Batch {
        std::vector<Request> requests;
        std::vector<std::uint8_t> text;
    };

    Batch waiting_;
    Batch running_;
};

}  // namespace innet::forwarding
