// The content stores' eviction policies over keys of Python's, for stores that are not tables.

#include <nanobind/stl/string_view.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "innet/_native/bindings.hpp"
#include "switch_emulator/tables/eviction_policy.hpp"
#include "switch_emulator/tables/lru.hpp"
#include "switch_emulator/tables/s3fifo.hpp"

namespace nb = nanobind;

namespace innet::bindings {

using nb::literals::operator""_a;

namespace {

/// An unknown key raises KeyError.
class EvictionQueue {
  public:
    EvictionQueue(std::string_view policy, std::size_t capacity) {
        if (policy == "lru") {
            policy_ = std::make_unique<tables::Lru>();
        } else if (policy == "s3fifo") {
            policy_ = std::make_unique<tables::S3Fifo>(capacity);
        } else {
            throw std::invalid_argument("invalid policy, expected 'lru' or 's3fifo'");
        }
    }

    void insert(const nb::bytes& key, std::size_t size) {
        const auto [place, is_new] = items_.try_emplace(std::string(key.c_str(), key.size()));
        if (!is_new) throw nb::key_error("the key is in the queue");
        Item& item = place->second;
        item.key = &place->first;
        item.hash = std::hash<std::string>{}(place->first);
        item.size_bytes = size;
        policy_->on_insert(item);
    }

    void use(const nb::bytes& key) {
        Item& item = find(key);
        item.is_demoted ? renew(item) : policy_->on_hit(item);
    }

    void demote(const nb::bytes& key) {
        Item& item = find(key);
        if (item.is_demoted) return renew(item);
        policy_->on_remove(item);
        demoted_.push_newest(item);
        item.is_demoted = true;
    }

    void remove(const nb::bytes& key) {
        Item& item = find(key);
        item.is_demoted ? demoted_.remove(item) : policy_->on_remove(item);
        items_.erase(items_.find(*item.key));
    }

    nb::bytes take_victim() {
        tables::CacheItem* victim = demoted_.oldest();
        victim ? demoted_.remove(*victim) : void(victim = policy_->take_victim());
        if (victim == nullptr) throw nb::key_error("the queue is empty");
        const std::string& key = *static_cast<Item*>(victim)->key;
        nb::bytes taken(key.data(), key.size());
        items_.erase(items_.find(key));
        return taken;
    }

  private:
    struct Item : tables::CacheItem {
        const std::string* key = nullptr;
        bool is_demoted = false;
    };

    void renew(Item& item) {
        demoted_.remove(item);
        demoted_.push_newest(item);
    }

    Item& find(const nb::bytes& key) {
        const auto found = items_.find(std::string(key.c_str(), key.size()));
        if (found == items_.end()) throw nb::key_error("the key is not in the queue");
        return found->second;
    }

    std::unique_ptr<tables::EvictionPolicy> policy_;
    std::unordered_map<std::string, Item> items_;
    tables::CacheQueue demoted_;
};

}  // namespace

void bind_eviction(nb::module_& module) {
    nb::class_<EvictionQueue>(module, "EvictionQueue",
                              "Keys in the order in which a content store's policy drops them.")
        .def(nb::init<std::string_view, std::size_t>(), "policy"_a, "capacity"_a)
        .def("insert", &EvictionQueue::insert, "key"_a, "size"_a)
        .def("use", &EvictionQueue::use, "key"_a)
        .def("demote", &EvictionQueue::demote, "key"_a,
             "Evicts a key before all that are not demoted, the least recent of these first.")
        .def("remove", &EvictionQueue::remove, "key"_a)
        .def("take_victim", &EvictionQueue::take_victim);
}

}  // namespace innet::bindings
