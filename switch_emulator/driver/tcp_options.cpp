#include "switch_emulator/driver/tcp_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace innet::driver {

namespace {

constexpr int kIdleBeforeProbeS = 60;
constexpr int kProbeIntervalS = 10;
constexpr int kProbes = 6;
/// What was sent and not acknowledged for so long ends the connection, too.
constexpr unsigned int kUserTimeoutMs = 120'000;

}  // namespace

void set_tcp_options(int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleBeforeProbeS, sizeof kIdleBeforeProbeS);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeIntervalS, sizeof kProbeIntervalS);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
}

}  // namespace innet::driver
