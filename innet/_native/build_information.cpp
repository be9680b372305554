// What this module was compiled with, and which of its ways of computing this CPU takes.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <openssl/crypto.h>

#include <string>
#include <string_view>

#include "innet/_native/bindings.hpp"
#include "switch_emulator/reduction/formats/cpu_clones.hpp"
#include "transport/security/batch_hasher.hpp"
#include "transport/security/ed25519.hpp"
#include "transport/security/gmac.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

#define INNET_TEXT_OF(...) #__VA_ARGS__
#define INNET_TEXT(...) INNET_TEXT_OF(__VA_ARGS__)

std::string compiler() {
#ifdef __clang__
    return "Clang " __clang_version__;
#else
    return "GCC " __VERSION__;
#endif
}

/// The copy of the kernels that was chosen when the module was loaded.
std::string kernels() {
#ifdef __x86_64__
    constexpr bool kHasCopies = !std::string_view(INNET_TEXT(INNET_CPU_CLONES)).empty();
    if (kHasCopies && __builtin_cpu_supports("x86-64-v4")) return "x86-64-v4";
    if (kHasCopies && __builtin_cpu_supports("x86-64-v3")) return "x86-64-v3";
#endif
    return "baseline";
}

}  // namespace

void bind_build_information(nb::module_& module) {
    module.def(
        "build_information",
        [] {
            nb::dict information;
            information["compiler"] = compiler();
            information["kernels"] = kernels();
            information["gmac"] = security::name_of(security::gmac_libraries().front());
            information["sha256"] = security::sha256_libraries();
            information["openssl"] = std::string(OpenSSL_version(OPENSSL_VERSION));
            information["ed25519"] = security::ed25519_library();
            return information;
        },
        nb::sig("def build_information() -> dict[str, str]"),
        "What the module was compiled with, and what it computes with on this CPU.");
}

}  // namespace innet::bindings
