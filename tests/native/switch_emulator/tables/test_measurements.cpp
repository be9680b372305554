#include <doctest/doctest.h>

#include "switch_emulator/tables/measurements.hpp"

using namespace innet;
using namespace innet::tables;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kNow{std::chrono::hours(1)};

wire::Name name(std::string_view uri) { return wire::Name::from_uri(uri).value(); }

}  // namespace

TEST_CASE("round-trip times are smoothed as in RFC 6298") {
    FaceMeasurement face(1);
    CHECK_FALSE(face.measured());
    CHECK(face.rto() == FaceMeasurement::kInitialRto);
    face.on_sent(kNow);
    face.on_answer(800ms, kNow);
    CHECK(face.srtt() == 800ms);
    CHECK(face.rtt_variation() == 400ms);
    CHECK(face.rto() == 2400ms);
    face.on_sent(kNow);
    face.on_answer(1600ms, kNow);
    CHECK(face.srtt() == 900ms);
    CHECK(face.rtt_variation() == 500ms);
}

TEST_CASE("each RTO of silence is a timeout, and an answer ends them") {
    FaceMeasurement face(1);
    face.note_silence(kNow + 10s);
    CHECK(face.timeouts() == 0);  // nothing was asked
    face.on_sent(kNow);
    face.note_silence(kNow + 1s);
    CHECK(face.timeouts() == 0);
    face.note_silence(kNow + 2500ms);
    CHECK(face.timeouts() == 2);
    face.on_answer(std::nullopt, kNow + 3s);
    CHECK(face.timeouts() == 0);
    CHECK_FALSE(face.measured());  // an answer of which nobody knows how long it took
}

TEST_CASE("an Interest older than answered ones is lost, and its face is not silent") {
    FaceMeasurement face(1);
    face.on_sent(kNow);
    face.on_sent(kNow + 1ms);
    face.on_answer(1ms, kNow + 2ms);
    face.on_given_up(kNow);
    CHECK(face.timeouts() == 0);
    face.on_sent(kNow + 3ms);
    face.on_given_up(kNow + 3ms);
    CHECK(face.timeouts() == 1);
}

TEST_CASE("unused entries expire, and a full table evicts the least recently used") {
    Measurements measurements(2);
    measurements.of(name("/a"), kNow).at(1).on_sent(kNow);
    CHECK(measurements.find(name("/a").view().hash(), 1) != nullptr);
    CHECK(measurements.find(name("/a").view().hash(), 2) == nullptr);
    measurements.of(name("/b"), kNow + 1s);
    measurements.of(name("/c"), kNow + 2s);
    CHECK(measurements.size() == 2);
    CHECK(measurements.find(name("/a").view().hash(), 1) == nullptr);
    const TimePoint later = kNow + 3s + Measurements::kLifetime;
    CHECK(measurements.of(name("/b"), later).faces.empty());
    measurements.of(name("/d"), later + 1s);
    CHECK(measurements.size() == 2);
}

TEST_CASE("measurements of a closed face are removed") {
    Measurements measurements;
    measurements.of(name("/a"), kNow).at(1);
    measurements.of(name("/a"), kNow).at(2);
    measurements.forget_face(1);
    CHECK(measurements.find(name("/a").view().hash(), 1) == nullptr);
    CHECK(measurements.find(name("/a").view().hash(), 2) != nullptr);
}
