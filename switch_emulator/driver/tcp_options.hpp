#pragma once
// How TCP connections of NDN programs are set up.

namespace innet::driver {

/// Packets leave at once, and a peer that is gone without a word is noticed in about two minutes,
/// so that it does not keep its face for ever (RFC 1122, section 4.2.3.6; RFC 5482).
void set_tcp_options(int fd);

}  // namespace innet::driver
