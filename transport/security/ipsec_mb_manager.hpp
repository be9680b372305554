#pragma once
// State of Intel's multi-buffer library (ipsec-mb): what it knows of the CPU, and jobs.

#include <intel-ipsec-mb.h>

#include <memory>
#include <new>

namespace innet::security {

using IpsecMbManager =
    std::unique_ptr<IMB_MGR, decltype([](IMB_MGR* manager) { free_mb_mgr(manager); })>;

/// Knows the CPU's features. One of the library's `init` functions makes it ready for jobs.
inline IpsecMbManager new_ipsec_mb_manager() {
    IpsecMbManager manager(alloc_mb_mgr(0));
    if (manager == nullptr) throw std::bad_alloc();
    return manager;
}

}  // namespace innet::security
