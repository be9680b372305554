#pragma once
// What the loops of kernel_loops.hpp need to know of an element type. Everything in the types is
// branch-free per element, so that those loops become vector code.
//
// A type has: Stored (what lies in memory), Accumulator, Flags (an integer that collects signs of
// overflow over a block), `widen`, `narrow` and a step for each of its operations, such as `sum`.

#include "switch_emulator/reduction/formats/cpu_clones.hpp"
