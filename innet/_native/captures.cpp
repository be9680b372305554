// `PcapngFile`: a capture of packets, as Python writes it.

#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "innet/_native/bindings.hpp"
#include "switch_emulator/capture/pcapng_file.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

using capture::PcapngFile;
using nb::literals::operator""_a;

std::span<const std::uint8_t> bytes_of(const nb::bytes& bytes) {
    return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

void add_packet(PcapngFile& file, std::uint32_t interface, std::int64_t time_ns,
                const nb::bytes& frame) {
    const std::array<std::span<const std::uint8_t>, 1> parts = {bytes_of(frame)};
    file.add_packet(interface, Duration(time_ns), parts, frame.size());
}

}  // namespace

void bind_captures(nb::module_& module) {
    nb::class_<PcapngFile>(module, "PcapngFile",
                           "A pcapng file with Ethernet interfaces and times in nanoseconds.")
        .def(nb::init<int>(), "descriptor"_a)
        .def("add_interface", &PcapngFile::add_interface, "name"_a)
        .def("add_packet", &add_packet, "interface"_a, "time_ns"_a, "frame"_a)
        .def("flush", &PcapngFile::flush)
        .def_prop_ro("good", &PcapngFile::good);
}

}  // namespace innet::bindings
