#pragma once

#include <optional>

#include "switch_emulator/forwarding/strategies/strategy.hpp"
#include "switch_emulator/port/random_bits.hpp"
#include "switch_emulator/tables/measurements.hpp"

namespace innet::forwarding::strategies {

struct AdaptiveOptions {
    /// Between two probes of a prefix; NFD's default is 60 s, too long for most experiments.
    Duration probing_interval = std::chrono::seconds(1);
    /// In a row, after which a next hop counts as silent.
    std::uint32_t max_timeouts = 3;
};

/// Asks the next hop with the smallest smoothed round-trip time that is not silent, and now and
/// then another one as well, to learn of its time (NFD's adaptive SRTT-based forwarding: Lehman et
/// al., "An experimental investigation of hyperbolic routing with a smart forwarding plane in NDN",
/// IWQoS 2016). Times are kept for each prefix of the FIB.
class Adaptive final : public Strategy {
  public:
    /// `probes` counts Interests sent to measure alone, and outlives the strategy.
    Adaptive(AdaptiveOptions options, std::uint64_t seed, std::uint64_t& probes)
        : options_(options), random_(seed), probes_(probes) {}

    Outcome after_receive_interest(const UpstreamRequest& request,
                                   StrategyActions& actions) override;
    void before_satisfy_interest(const tables::PitEntry& entry, tables::OutRecord& upstream,
                                 TimePoint now) override;
    void after_receive_nack(const tables::PitEntry& entry, tables::OutRecord& upstream,
                            wire::NackReason reason, TimePoint now) override;
    void after_receive_hold(const tables::PitEntry& entry, tables::OutRecord& upstream,
                            TimePoint now) override;
    void after_interest_timeout(tables::PitEntry& entry, TimePoint now) override;
    void on_entry_ended(tables::PitEntry& entry) override;
    void on_face_closed(FaceId face) override { measurements_.forget_face(face); }

  private:
    void forward(const UpstreamRequest& request, StrategyActions& actions,
                 tables::FaceMeasurement& measurement, Nonce nonce);
    void probe(const UpstreamRequest& request, StrategyActions& actions,
               tables::PrefixMeasurements& known, FaceId best);
    bool is_probe_due(tables::PrefixMeasurements& known, TimePoint now);
    bool precedes(const tables::FaceMeasurement& a, const tables::FaceMeasurement& b) const;
    int rank(const tables::FaceMeasurement& measurement) const;
    /// The upstream's measurement; null when it was not measured, or was settled already.
    tables::FaceMeasurement* settle(tables::OutRecord& upstream);

    AdaptiveOptions options_;
    port::RandomBits random_;
    std::uint64_t& probes_;
    tables::Measurements measurements_;
    std::vector<FaceId> others_;  ///< scratch of one probe
};

}  // namespace innet::forwarding::strategies
