#include "transport/security/gmac_ipsec_mb.hpp"

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include <optional>

#include "transport/security/ipsec_mb_manager.hpp"

namespace innet::security {

namespace {

/// The library loads from and stores into its structures by whole registers. Its header leaves that
/// to callers.
constexpr std::size_t kAlignment = 64;

/// What the library offers for keys of one size. The functions take all state as arguments, so that
/// all threads share them.
struct Functions {
    decltype(IMB_MGR::gcm128_pre) expand;
    decltype(IMB_MGR::gmac128_init) init;
    decltype(IMB_MGR::gmac128_update) update;
    decltype(IMB_MGR::gmac128_finalize) finalize;
};

struct FunctionsBySize {
    Functions aes128;
    Functions aes256;
};

std::optional<FunctionsBySize> functions_of_cpu() {
    constexpr std::uint64_t kWide =
        IMB_FEATURE_AVX512_SKX | IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ | IMB_FEATURE_AESNI;
    const IpsecMbManager manager = new_ipsec_mb_manager();
    IMB_ARCH architecture = IMB_ARCH_NONE;
    if ((manager->features & kWide) == kWide) init_mb_mgr_auto(manager.get(), &architecture);
    if (architecture != IMB_ARCH_AVX512) return std::nullopt;
    return FunctionsBySize{
        {manager->gcm128_pre, manager->gmac128_init, manager->gmac128_update,
         manager->gmac128_finalize},
        {manager->gcm256_pre, manager->gmac256_init, manager->gmac256_update,
         manager->gmac256_finalize},
    };
}

const std::optional<FunctionsBySize>& functions() {
    static const std::optional<FunctionsBySize> of_cpu = functions_of_cpu();
    return of_cpu;
}

class IpsecMbGmac final : public Gmac::Algorithm {
  public:
    explicit IpsecMbGmac(wire::ByteView key)
        : functions_(key.size() == 16 ? functions()->aes128 : functions()->aes256) {
        functions_.expand(key.data(), &key_);
    }
    IpsecMbGmac(const IpsecMbGmac&) = delete;
    IpsecMbGmac& operator=(const IpsecMbGmac&) = delete;
    ~IpsecMbGmac() override {
        OPENSSL_cleanse(&key_, sizeof key_);
        OPENSSL_cleanse(&context_, sizeof context_);
    }

    GmacTag tag(GmacIv iv, std::span<const wire::ByteView> parts) override {
        GmacTag tag;
        functions_.init(&key_, &context_, iv.data(), iv.size());
        for (const wire::ByteView part : parts) {
            if (!part.empty()) functions_.update(&key_, &context_, part.data(), part.size());
        }
        functions_.finalize(&key_, &context_, tag.data(), tag.size());
        return tag;
    }

  private:
    Functions functions_;
    alignas(kAlignment) gcm_key_data key_;
    alignas(kAlignment) gcm_context_data context_;
};

}  // namespace

bool ipsec_mb_suits_cpu() { return functions().has_value(); }

std::string ipsec_mb_name() { return std::string("ipsec-mb ") + imb_get_version_str(); }

std::unique_ptr<Gmac::Algorithm> make_ipsec_mb_gmac(wire::ByteView key) {
    return std::make_unique<IpsecMbGmac>(key);
}

}  // namespace innet::security
