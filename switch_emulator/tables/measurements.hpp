#pragma once
// How the faces that lead towards a prefix have answered: round-trip times and silence.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet::tables {

/// Round-trip times, smoothed with their variation as in RFC 6298, and how long the face has been
/// silent with Interests outstanding.
class FaceMeasurement {
  public:
    static constexpr Duration kInitialRto = std::chrono::seconds(1);
    static constexpr Duration kMinRto = std::chrono::milliseconds(200);
    static constexpr Duration kMaxRto = std::chrono::seconds(10);

    explicit FaceMeasurement(FaceId of) : face(of) {}

    void on_sent(TimePoint now);
    /// `rtt` is absent when it is not known which of several transmissions was answered.
    void on_answer(std::optional<Duration> rtt, TimePoint now);
    void on_refusal(TimePoint now);
    /// The face announced a late answer: it is not silent.
    void on_sign_of_life(TimePoint now) { waiting_since_ = now; }
    /// The Interest sent at `sent` timed out.
    void on_given_up(TimePoint sent);
    /// The requesters withdrew the Interest.
    void on_withdrawn();
    /// Counts silence up to now: one timeout for each RTO without a sign of life.
    void note_silence(TimePoint now);

    bool measured() const { return srtt_.has_value(); }
    /// Smoothed round-trip time; 0 when there was none yet.
    Duration srtt() const { return srtt_.value_or(Duration::zero()); }
    Duration rtt_variation() const { return variation_; }
    Duration rto() const;
    /// In a row: an answer ends it.
    std::uint32_t timeouts() const { return timeouts_; }

    FaceId face;

  private:
    std::optional<Duration> srtt_;
    Duration variation_{0};
    std::uint32_t unanswered_ = 0;
    std::uint32_t timeouts_ = 0;
    TimePoint waiting_since_{};
};

struct PrefixMeasurements {
    wire::Name prefix;
    std::vector<FaceMeasurement> faces;
    TimePoint used;
    std::optional<TimePoint> next_probe;

    FaceMeasurement& at(FaceId face);
};

/// A bounded table. What was not used for `kLifetime` is forgotten.
class Measurements {
  public:
    static constexpr Duration kLifetime = std::chrono::minutes(5);

    explicit Measurements(std::size_t capacity = 4096) : capacity_(capacity) {}

    /// What is known of a prefix, whose use this is.
    PrefixMeasurements& of(const wire::Name& prefix, TimePoint now);
    /// Null when nothing is known of that face there.
    FaceMeasurement* find(wire::NameHash prefix, FaceId face);
    void forget_face(FaceId face);
    std::size_t size() const { return prefixes_.size(); }

  private:
    void make_room(TimePoint now);

    std::size_t capacity_;
    std::unordered_map<wire::NameHash, PrefixMeasurements> prefixes_;
    TimePoint next_sweep_{};
};

}  // namespace innet::tables
