#pragma once
// Debug log with a line at each branch of a pipeline. Built with INNET_DEBUG_LOG (every Debug
// build), INNET_LOG writes the categories of the environment variable INNET_LOG to standard error:
// `INNET_LOG=forwarding,fetch` or `INNET_LOG=all`. Other builds compile it to nothing.

#include <cstdint>
#include <string_view>

#ifdef INNET_DEBUG_LOG
#include <sstream>
#endif

#include "transport/wire/name.hpp"

namespace innet::debug_log {

enum class Category : std::uint8_t { kForwarding, kReduction, kFetch, kManagement };

#ifdef INNET_DEBUG_LOG

bool is_enabled(Category category);
/// Overrides the environment: comma-separated categories, or `all`. Throws std::invalid_argument
/// for an unknown one.
void enable(std::string_view categories);
/// Where lines go, without their end; null: standard error.
void set_sink(void (*sink)(std::string_view line));

void write(Category category, const std::ostringstream& message);

/// While it lives, lines of this thread begin with the node's name.
class NodeScope {
  public:
    explicit NodeScope(wire::NameView node);
    NodeScope(const NodeScope&) = delete;
    NodeScope& operator=(const NodeScope&) = delete;
    ~NodeScope();

  private:
    wire::NameView outer_;
};

#define INNET_LOG(category, message)                                                           \
    do {                                                                                       \
        if (::innet::debug_log::is_enabled(::innet::debug_log::Category::category)) {          \
            std::ostringstream innet_log_line;                                                 \
            innet_log_line << message; /* NOLINT(bugprone-macro-parentheses): a chain of << */ \
            ::innet::debug_log::write(::innet::debug_log::Category::category, innet_log_line); \
        }                                                                                      \
    } while (false)

#else

class NodeScope {
  public:
    explicit NodeScope(wire::NameView /*node*/) {}
};

#define INNET_LOG(category, message) static_cast<void>(0)

#endif

}  // namespace innet::debug_log
