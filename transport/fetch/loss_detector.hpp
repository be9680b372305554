#pragma once
// Tells lost requests from late ones on one flow (requests that one node answers, each about as
// soon as the others).
//
// By gap: a request is lost when three sent after it were answered and 9/8 of the smoothed RTT
// passed (RFC 9002, section 6.1), or a round trip later where answers wait for other nodes and no
// loss is known. By timeout: RTO of RFC 6298, with back-off. A flow that falls silent is rather
// late than lost, as a sum waits for other sums: only its oldest request is repeated, as a probe
// (RFC 8985, section 7), and all others when the probe times out, too. When the probe is answered,
// and after it nothing else for a while, what was sent before it is lost. Sums of other nodes wait
// for each other: until a loss is known, they time out at the earliest a shortest RTO after the
// latest sum on any flow of the node. A request is also refreshed once per Interest lifetime, since
// the tables on its way forget it.
//
// A held request (its producer said "not yet") is not lost: it is only refreshed likewise. When an
// answer proves that the publication exists by now, what is still held of it becomes an ordinary
// request again: its Data is on the way, or was lost. All of these answers may be lost together, so
// one held request of each publication is refreshed sooner: after the shortest timeout, or a round
// trip that is longer, then after twice that, and so on. This time, too, counts from the latest sum
// where the RTO does.
//
// Every operation is O(1) amortised per request, and nothing is allocated once the tables are warm.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/audit.hpp"
#include "transport/fetch/rtt_estimator.hpp"
#include "transport/time.hpp"

namespace innet {

/// The caller's handle of a request (a segment, a slot and operand).
using RequestKey = std::uint64_t;

/// Requests whose answers become available at the same moment (the segments of one name and
/// sequence number); any distinct number, such as the hash of the name without its segment.
using PublicationTag = std::uint64_t;

enum class LossCause : std::uint8_t { kGap, kTimeout, kRefresh };

/// What the order of the answers on a flow tells.
enum class AnswerOrder : std::uint8_t {
    kAsSent,     ///< available values are answered in the order of the requests
    kWhenReady,  ///< sums of another node: each waits for operands of its own
    kLocal,      ///< sums of this node: no link can lose them
};

struct LostRequest {
    RequestKey key = 0;
    LossCause cause = LossCause::kGap;
    std::uint32_t consecutive_timeouts = 0;  ///< of this request
};

/// The knowledge that all detectors of a node share.
struct AnswerHistory {
    TimePoint last_sum{};        ///< time of the last sum that arrived or that this node finished
    bool lossy = false;          ///< a repetition was needed, and few were needless since
    std::uint32_t needless = 0;  ///< repetitions in a row whose first sending was answered

    void on_repeated(bool needed);
};

/// Bytes of answers that several detectors wait for together. What timed out does not count until
/// it is answered: a node that is dead must not take the room of the others.
struct AwaitedBytes {
    std::uint64_t in_flight = 0;
    std::uint64_t held = 0;
    AnswerHistory* history = nullptr;  ///< null: each detector has its own
};

class LossDetector {
  public:
    /// `awaited`, if given, must outlive the detector.
    LossDetector(Duration min_rto, Duration max_rto, Duration refresh_interval,
                 AwaitedBytes* awaited = nullptr, AnswerOrder order = AnswerOrder::kAsSent);
    ~LossDetector();
    LossDetector(LossDetector&&) noexcept;
    LossDetector& operator=(LossDetector&&) noexcept;

    /// A request is sent, for the first time or again after it was reported lost; `answer_bytes`
    /// count as awaited.
    void on_sent(RequestKey key, PublicationTag publication, TimePoint now,
                 std::uint32_t answer_bytes = 0);
    /// The answer arrived. True when the key was outstanding. Takes an RTT sample when it is sound.
    bool on_answered(RequestKey key, TimePoint now);
    /// Ignored after an answer to another request of its publication.
    void on_held(RequestKey key, TimePoint now);
    /// The request waits to be sent (its window is full, or its node sent a refusal): it has no
    /// timers until `on_sent`. A request that is reported lost is parked already.
    void park(RequestKey key, PublicationTag publication);
    void forget(RequestKey key);
    /// Starts again from the timeout that the RTT asks for: a probe of a flow that was silent
    /// should not wait for the longest one.
    void forget_back_offs();
    bool outstanding(RequestKey key) const;
    bool parked(RequestKey key) const;
    std::size_t outstanding_count() const;  ///< held and parked ones included
    std::size_t held_count() const;
    std::size_t held_count(PublicationTag publication) const;
    /// Whether a request of the publication was held, and none has been answered since.
    bool is_late(PublicationTag publication) const;
    /// A held request of the publication, if any.
    std::optional<RequestKey> held_request(PublicationTag publication) const;
    std::size_t in_flight_count() const;  ///< neither held nor parked

    /// Appends the requests that are lost or due for a refresh. The caller sends each again
    /// (`on_sent`) or forgets it.
    void collect(TimePoint now, std::vector<LostRequest>& into);
    TimePoint next_deadline() const;
    const RttEstimator& rtt() const;
    /// Checks the counts against the queues.
    void audit(AuditReport& report) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace innet
