// What packets carry: manifests, and operands of every format that a reducer adds.

#include <array>
#include <string_view>

#include "switch_emulator/reduction/formats/registry.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"
#include "tests/fuzz/require.hpp"
#include "transport/security/manifest.hpp"

namespace {

using innet::fuzz::require;
using innet::wire::ByteView;
using innet::wire::DataView;

/// A root and, behind it in the same input, a manifest that it may list.
void read_manifests(ByteView bytes) {
    innet::wire::Reader reader(bytes);
    const auto first = reader.next();
    const auto root = first ? DataView::parse(first->whole) : std::nullopt;
    auto verifier =
        root ? innet::security::ManifestVerifier::from_verified_root(*root) : std::nullopt;
    if (!verifier) return;
    const auto& tree = verifier->tree();
    require(tree.segments() > 0 && tree.manifests() > 0, "an object has segments");
    for (const std::uint64_t segment : {std::uint64_t{0}, tree.segments() - 1, tree.segments()}) {
        verifier->missing_manifest(segment);
        verifier->check(segment, {});
    }
    while (const auto next = reader.next()) {
        const auto data = DataView::parse(next->whole);
        if (data && !verifier->add_manifest(*data)) verifier->check(*data);
    }
}

/// Two operands, equal in size: what is without fault is reduced within the room that was asked.
void reduce(std::string_view what, ByteView bytes) {
    const auto* format = innet::reduction::find_format(what);
    if (format == nullptr) return;
    const std::array<ByteView, 2> operands = {bytes.first(bytes.size() / 2),
                                              bytes.subspan(bytes.size() / 2)};
    for (const ByteView operand : operands) {
        if (format->find_fault(operand)) return;
    }
    if (format->has_fixed_size() && operands[0].size() != operands[1].size()) return;
    std::vector<std::uint8_t> result(format->max_result_size(operands));
    const auto reduced = format->reduce(operands, result);
    require(reduced.size <= result.size(), "a result fits the room that was asked for it");
    if (reduced.status == innet::reduction::ReduceStatus::kOk) {
        require(!format->find_fault(ByteView(result).first(reduced.size)),
                "what was reduced can be reduced again");
    }
}

}  // namespace

/// The first byte chooses: manifests, or a format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) return 0;
    constexpr std::array<std::string_view, 12> kFormats = {
        "sum.u64-f32", "max.u32-f64", "prod.u64-i64", "sum.u32-f32x32", "sum.q8",   "sum.f32",
        "sum.i32",     "prod.c64",    "min.f16",      "bor.bool",       "sum.bf16", "max.f8e4m3fn"};
    const ByteView rest(bytes + 1, size - 1);
    if (bytes[0] < kFormats.size()) {
        reduce(kFormats[bytes[0]], rest);
    } else if (const auto name = innet::wire::NameView::parse(rest)) {
        innet::reduction::ReductionName::parse(*name);
    } else {
        read_manifests(rest);
    }
    return 0;
}
