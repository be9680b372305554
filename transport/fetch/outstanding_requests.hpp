#pragma once
// The outstanding requests of a flow, in queues by when each is due; see LossDetector.

#include <array>
#include <cstdint>
#include <vector>

#include "transport/audit.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/fetch/request_index.hpp"
#include "transport/time.hpp"

namespace innet {

class OutstandingRequests {
  public:
    static constexpr std::uint32_t kNone = RequestIndex::kNone;

    /// Requests are kept in one queue per number of back-offs, or of refreshes when held: within a
    /// queue, deadlines are in send order.
    static constexpr std::size_t kLevels = 8;

    /// Where a request waits.
    enum class Where : std::uint8_t {
        kSent,    ///< in `sent()[level]`
        kHeld,    ///< in `held()[level]`, and in its publication's list
        kParked,  ///< reported lost, or not sent yet; without timers
    };

    struct Link {
        std::uint32_t previous = kNone;
        std::uint32_t next = kNone;
    };

    struct Request {
        RequestKey key = 0;
        std::uint64_t send_number = 0;
        /// When its Interest left. Below `send_number` of one that was held and is in flight again.
        std::uint64_t interest_number = 0;
        TimePoint since{};  ///< sent, or held
        /// kNever once held: its answer's time then says nothing of the network.
        TimePoint first_sent{};
        Link link;     ///< in `sent()[level]` or `held()[level]`
        Link sibling;  ///< among the held requests of its publication
        std::uint32_t publication = kNone;
        std::uint32_t timeouts = 0;
        std::uint32_t gap_losses = 0;
        std::uint32_t answer_bytes = 0;
        Where where = Where::kParked;
        std::uint8_t level = 0;
        bool sample = true;  ///< Karn's rule: sent once, never held
    };

    /// Doubly linked list threaded through the requests.
    struct Queue {
        std::uint32_t head = kNone;
        std::uint32_t tail = kNone;

        void push_back(std::vector<Request>& requests, Link Request::* link, std::uint32_t at) {
            requests[at].*link = {tail, kNone};
            (tail == kNone ? head : (requests[tail].*link).next) = at;
            tail = at;
        }

        void remove(std::vector<Request>& requests, Link Request::* link, std::uint32_t at) {
            const Link old = requests[at].*link;
            (old.previous == kNone ? head : (requests[old.previous].*link).next) = old.next;
            (old.next == kNone ? tail : (requests[old.next].*link).previous) = old.previous;
        }
    };

    struct Publication {
        PublicationTag tag = 0;
        Queue held;
        std::uint32_t requests = 0;  ///< outstanding ones; the last removes the record
        std::uint32_t held_count = 0;
        std::uint32_t probe = kNone;  ///< the request of it that is refreshed early
        std::uint8_t probes = 0;
        bool answered = false;

        bool is_late() const { return probes > 0 && !answered; }
    };

    using Queues = std::array<Queue, kLevels>;

    /// Counts the bytes of answers in `awaited`, which must outlive it.
    explicit OutstandingRequests(AwaitedBytes& awaited) : awaited_(awaited) {}
    OutstandingRequests(const OutstandingRequests&) = delete;
    OutstandingRequests& operator=(const OutstandingRequests&) = delete;
    ~OutstandingRequests() {
        for (std::size_t level = 0; level < kLevels; ++level) {
            while (sent_[level].head != kNone) park(sent_[level].head);
            while (held_[level].head != kNone) park(held_[level].head);
        }
    }

    /// The place of a request; kNone when it is not outstanding.
    std::uint32_t find(RequestKey key) const { return index_.find(key); }
    Request& at(std::uint32_t place) { return requests_[place]; }
    const Request& at(std::uint32_t place) const { return requests_[place]; }
    /// Null when no request of it is outstanding.
    const Publication* publication(PublicationTag tag) const {
        const std::uint32_t place = publication_index_.find(tag);
        return place == kNone ? nullptr : &publications_[place];
    }
    Publication& publication_of(const Request& request) {
        return publications_[request.publication];
    }
    const Queues& sent() const { return sent_; }
    const Queues& held() const { return held_; }
    std::size_t count() const { return index_.size(); }
    std::size_t held_count() const { return held_count_; }
    std::size_t in_flight_count() const { return in_flight_count_; }
    std::uint64_t next_send_number() const { return next_send_number_; }

    /// Adds a parked request.
    std::uint32_t add(RequestKey key, PublicationTag tag) {
        const std::uint32_t place = place_in(requests_, free_requests_);
        const std::uint32_t publication = publication_with(tag);
        ++publications_[publication].requests;
        at(place).key = key;
        at(place).publication = publication;
        index_.insert(key, place);
        return place;
    }

    void remove(std::uint32_t place) {
        park(place);
        Publication& publication = publication_of(at(place));
        if (publication.probe == place) publication.probe = kNone;
        if (--publication.requests == 0) {
            publication_index_.erase(publication.tag);
            free_publications_.push_back(at(place).publication);
        }
        index_.erase(at(place).key);
        free_requests_.push_back(place);
    }

    /// Takes a request from its queues.
    void park(std::uint32_t place) {
        Request& request = at(place);
        if (request.where == Where::kSent) {
            sent_[request.level].remove(requests_, &Request::link, place);
            --in_flight_count_;
            if (request.level == 0) awaited_.in_flight -= request.answer_bytes;
        }
        if (request.where == Where::kHeld) {
            Publication& publication = publication_of(request);
            held_[request.level].remove(requests_, &Request::link, place);
            publication.held.remove(requests_, &Request::sibling, place);
            --publication.held_count;
            --held_count_;
            awaited_.held -= request.answer_bytes;
        }
        request.where = Where::kParked;
    }

    /// Queues a parked request as sent now.
    void send(std::uint32_t place, std::uint8_t level, TimePoint now) {
        Request& request = at(place);
        request.level = level;
        request.send_number = request.interest_number = next_send_number_++;
        request.since = now;
        if (request.first_sent == TimePoint{}) request.first_sent = now;
        request.where = Where::kSent;
        sent_[level].push_back(requests_, &Request::link, place);
        ++in_flight_count_;
        if (level == 0) awaited_.in_flight += request.answer_bytes;
    }

    /// Queues a parked request as held since now. One of each publication is refreshed early.
    void hold(std::uint32_t place, TimePoint now) {
        Request& request = at(place);
        Publication& publication = publication_of(request);
        request.where = Where::kHeld;
        request.since = now;
        request.timeouts = 0;
        request.gap_losses = 0;
        request.sample = false;
        request.first_sent = kNever;
        request.level = kLevels - 1;
        if (publication.probe == kNone) publication.probe = place;
        if (publication.probe == place) {
            request.level = publication.probes;
            if (publication.probes < kLevels - 1) ++publication.probes;
        }
        held_[request.level].push_back(requests_, &Request::link, place);
        publication.held.push_back(requests_, &Request::sibling, place);
        ++publication.held_count;
        ++held_count_;
        awaited_.held += request.answer_bytes;
    }

    /// The held requests of a publication are in flight again since now.
    void release_held(Publication& publication, TimePoint now) {
        while (publication.held.head != kNone) {
            const std::uint32_t place = publication.held.head;
            park(place);
            const std::uint64_t interest_number = at(place).interest_number;
            send(place, 0, now);
            at(place).interest_number = interest_number;
        }
    }

    /// Checks the counts against the queues.
    void audit(AuditReport& report) const;

  private:
    /// A free place with a new element.
    template <typename Element>
    static std::uint32_t place_in(std::vector<Element>& all, std::vector<std::uint32_t>& free) {
        if (free.empty()) {
            all.emplace_back();
            return static_cast<std::uint32_t>(all.size() - 1);
        }
        const std::uint32_t place = free.back();
        free.pop_back();
        all[place] = Element{};
        return place;
    }

    std::uint32_t publication_with(PublicationTag tag) {
        const std::uint32_t known = publication_index_.find(tag);
        if (known != kNone) return known;
        const std::uint32_t place = place_in(publications_, free_publications_);
        publications_[place].tag = tag;
        publication_index_.insert(tag, place);
        return place;
    }

    AwaitedBytes& awaited_;
    std::vector<Request> requests_;
    std::vector<std::uint32_t> free_requests_;
    RequestIndex index_;
    std::vector<Publication> publications_;
    std::vector<std::uint32_t> free_publications_;
    RequestIndex publication_index_;
    Queues sent_;
    Queues held_;
    std::size_t held_count_ = 0;
    std::size_t in_flight_count_ = 0;
    std::uint64_t next_send_number_ = 1;
};

}  // namespace innet
