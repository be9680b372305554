#pragma once
// The prefixes that programs serve at this node: what a network may want to know of it.

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet::management {

/// Counts the routes of each prefix, and notifies the listener once per batch of changes.
class RegisteredPrefixes {
  public:
    /// `on_change` is called at the first change after each `take`, and at once when there was one.
    void listen(std::function<void()> on_change) {
        on_change_ = std::move(on_change);
        if (changed_ && on_change_) on_change_();
    }

    void add(const wire::Name& prefix) {
        if (routes_[prefix]++ == 0) note_change();
    }

    void remove(const wire::Name& prefix) {
        const auto known = routes_.find(prefix);
        if (known == routes_.end() || --known->second > 0) return;
        routes_.erase(known);
        note_change();
    }

    /// All of them now, in canonical order, `limit` at most.
    std::vector<wire::Name> take(std::size_t limit) {
        changed_ = false;
        std::vector<wire::Name> prefixes;
        for (auto at = routes_.begin(); at != routes_.end() && prefixes.size() < limit; ++at) {
            prefixes.push_back(at->first);
        }
        return prefixes;
    }

    std::size_t size() const { return routes_.size(); }

  private:
    void note_change() {
        if (changed_) return;
        changed_ = true;
        if (on_change_) on_change_();
    }

    std::map<wire::Name, std::size_t> routes_;
    std::function<void()> on_change_;
    bool changed_ = false;
};

}  // namespace innet::management
