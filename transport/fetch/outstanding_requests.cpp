#include "transport/fetch/outstanding_requests.hpp"

namespace innet {

void OutstandingRequests::audit(AuditReport& report) const {
    const auto length = [this](const Queue& queue, Where where) {
        std::size_t count = 0;
        for (std::uint32_t place = queue.head; place != kNone; place = at(place).link.next) {
            count += at(place).where == where ? 1 : 0;
        }
        return count;
    };
    std::size_t in_flight = 0;
    std::size_t held = 0;
    for (const Queue& queue : sent_) in_flight += length(queue, Where::kSent);
    for (const Queue& queue : held_) held += length(queue, Where::kHeld);
    report.expect_equal(in_flight_count_, in_flight, "requests in flight");
    report.expect_equal(held_count_, held, "held requests");
    report.expect_equal(requests_.size() - free_requests_.size(), index_.size(),
                        "requests in the index");
    std::size_t of_publications = 0;
    std::size_t held_of_publications = 0;
    for (const Publication& publication : publications_) {
        of_publications += publication.requests;
        held_of_publications += publication.held_count;
    }
    report.expect_equal(of_publications, index_.size(), "requests of publications");
    report.expect_equal(held_of_publications, held_count_, "held requests of publications");
}

}  // namespace innet
