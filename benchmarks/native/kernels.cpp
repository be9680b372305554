// Speed of the reduction kernels: 8 operands of 8 KiB each, as they lie in packets (unaligned), in
// L2.
//
// Prints one line per type: GB of operand bytes per second, the best of several rounds.

#include "switch_emulator/reduction/formats/dense/kernels.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

using innet::reduction::DType;
using innet::reduction::Op;
using innet::wire::ByteView;

constexpr std::size_t kOperands = 8;
constexpr std::size_t kOperandBytes = 8192;
constexpr int kCallsPerRound = 2000;
constexpr int kRounds = 9;

double gigabytes_per_second(Op op, DType dtype) {
    // Ones, as f32 or as a pattern of small numbers in the other types: no overflow, no special
    // case.
    std::vector<std::uint8_t> memory((kOperandBytes + 64) * kOperands);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = i % 2 == 0 ? 0x00 : 0x01;
    std::array<ByteView, kOperands> operands;
    for (std::size_t k = 0; k < kOperands; ++k) {
        operands[k] = ByteView(memory.data() + k * (kOperandBytes + 64) + 7 * k, kOperandBytes);
    }
    std::vector<std::uint8_t> result(kOperandBytes);
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int call = 0; call < kCallsPerRound; ++call) {
            innet::reduction::reduce(op, dtype, operands, result);
        }
        const std::chrono::duration<double> elapsed_s = std::chrono::steady_clock::now() - start;
        const double bytes = static_cast<double>(kOperands * kOperandBytes) * kCallsPerRound;
        best = std::max(best, bytes / elapsed_s.count() / 1e9);
    }
    return best;
}

}  // namespace

int main() {
    constexpr std::array kOps{std::pair{"sum", Op::kSum}, std::pair{"min", Op::kMin},
                              std::pair{"max", Op::kMax}, std::pair{"prod", Op::kProd},
                              std::pair{"bxor", Op::kBxor}};
    std::printf("%-9s", "type");
    for (const auto& [name, op] : kOps) std::printf("%9s", name);
    std::printf("  (GB/s of operands)\n");
    for (std::size_t i = 0; i < innet::reduction::kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        std::printf("%-9s", std::string(innet::reduction::description(dtype).name).c_str());
        for (const auto& [name, op] : kOps) {
            if (innet::reduction::supports(dtype, op)) {
                std::printf("%9.1f", gigabytes_per_second(op, dtype));
            } else {
                std::printf("%9s", "-");
            }
        }
        std::printf("\n");
    }
}
