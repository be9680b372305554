// Time that a reducer spends on one reduction of 8 operands, its signature included: from the
// admission over the operands' arrival to the signed sum. 64 reductions are in work at a time; the
// best of many rounds.

#include "switch_emulator/reduction/reducer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "transport/buffer/packet_ref.hpp"

namespace {

using namespace innet;

constexpr std::size_t kOperands = 8;
constexpr std::uint64_t kReductions = 64;
constexpr std::uint64_t kRounds = 300;

/// Counts, and drops what it is given.
class CountingForwarder final : public Forwarder {
  public:
    void express(RequesterId, wire::NameView, wire::NameView, Duration) override { ++expressed; }
    void cancel(RequesterId, wire::NameView) override {}
    void put_data(RequesterId, PacketRef, bool) override { ++answered; }
    void hold(wire::NameView, wire::ByteView) override {}
    void nack(wire::NameView, wire::NackReason) override {}

    std::uint64_t expressed = 0;
    std::uint64_t answered = 0;
};

wire::Name tensor_name(const std::string& interval, std::uint64_t segment) {
    wire::Name name = wire::Name().append("job").append("g0").append(interval).append("sum.f32");
    name.append_number(wire::kSequenceNumComponent, 41);
    return name.append_number(wire::kSegmentComponent, segment);
}

PacketRef operand_packet(PacketPool& pool, const wire::Name& name, std::size_t content_bytes) {
    wire::DataFields fields;
    fields.name = name.view();
    fields.tensor_elements = content_bytes / 4;
    PacketRef packet = pool.allocate(content_bytes + 256);
    const auto layout = wire::encode_data(fields, content_bytes, 28, packet.writable());
    std::ranges::fill(packet.writable().subspan(layout.content_offset, content_bytes),
                      std::uint8_t{0});
    packet.truncate(layout.size);
    return packet;
}

reduction::Rule eight_ranks() {
    reduction::Rule rule;
    rule.group = wire::Name().append("job").append("g0");
    rule.interval = wire::Name().append("0-7");
    for (std::size_t rank = 0; rank < kOperands; ++rank) {
        const std::string text = std::to_string(rank);
        rule.operands.push_back({wire::Name().append(text), wire::Name().append("n").append(text)});
    }
    return rule;
}

/// Microseconds for each reduction, parsing the operands included.
double time_reductions(std::size_t content_bytes) {
    PacketPool pool;
    CountingForwarder forwarder;
    const std::vector<std::uint8_t> key(16, 7);
    const auto signer = security::make_gmac_signer(wire::Name().append("key"), key, {});
    const jobs::JobTable jobs;
    reduction::Reducer reducer({}, jobs, forwarder, pool, signer.get());
    reducer.install(eight_ranks());
    std::vector<wire::Name> sums;
    std::vector<PacketRef> operands;
    for (std::uint64_t segment = 0; segment < kReductions; ++segment) {
        sums.push_back(tensor_name("0-7", segment));
        for (std::size_t rank = 0; rank < kOperands; ++rank) {
            operands.push_back(
                operand_packet(pool, tensor_name(std::to_string(rank), segment), content_bytes));
        }
    }
    TimePoint now{};
    double best_us = std::numeric_limits<double>::max();
    for (std::uint64_t round = 0; round < kRounds; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (const wire::Name& sum : sums) reducer.admit(sum.view(), false, now);
        now += std::chrono::microseconds(100);
        for (const PacketRef& packet : operands) {
            reducer.on_data(*wire::DataView::parse(packet.bytes()), packet, false, now);
        }
        const std::chrono::duration<double, std::micro> elapsed_us =
            std::chrono::steady_clock::now() - start;
        best_us = std::min(best_us, elapsed_us.count() / static_cast<double>(kReductions));
    }
    if (forwarder.answered != kReductions * kRounds) std::puts("some reductions were not answered");
    return best_us;
}

}  // namespace

int main() {
    for (const std::size_t content_bytes : {4U, 1024U, 8192U}) {
        std::printf("8 operands of %5zu bytes: %6.2f us per reduction\n", content_bytes,
                    time_reductions(content_bytes));
    }
}
