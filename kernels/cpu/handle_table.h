// Objects of a back end behind handles.
#pragma once

#include "kernels/error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace orrery::kernels::cpu {

/// An id is never used twice, so a handle that was released names nothing. Objects that were borrowed from
/// another table can be read here, and neither written nor removed.
template <class Handle, class Object>
class HandleTable {
public:
    explicit HandleTable(const char* what) : what_(what) {}

    /// Takes over the objects that `other` holds now, to be read.
    void borrow(const HandleTable& other) {
        for (const auto& [id, entry] : other.objects_)
            objects_.emplace(id, Entry{entry.object, true});
        last_id_ = other.last_id_;
    }
    Handle add(std::shared_ptr<Object> object) {
        Handle handle;
        handle.id = ++last_id_;
        objects_.emplace(handle.id, Entry{std::move(object), false});
        return handle;
    }
    const Object& read(Handle handle) const { return *find(handle.id).object; }
    Object& write(Handle handle) const {
        const Entry& entry = find(handle.id);
        if (entry.borrowed)
            refuse(handle.id, "belongs to the back end that this one was made from: it is not written here");
        return *entry.object;
    }
    void remove(Handle handle) {
        if (find(handle.id).borrowed)
            refuse(handle.id, "belongs to the back end that this one was made from: it is released there");
        objects_.erase(handle.id);
    }

private:
    struct Entry {
        std::shared_ptr<Object> object;
        bool borrowed = false;
    };
    const Entry& find(uint32_t id) const {
        const auto found = objects_.find(id);
        if (found == objects_.end())
            throw Error("The CPU back end knows no " + std::string(what_) + " " + std::to_string(id) + ".");
        return found->second;
    }
    [[noreturn]] void refuse(uint32_t id, const char* why) const {
        throw Error("The " + std::string(what_) + " " + std::to_string(id) + " " + why + ".");
    }

    const char* what_;
    std::unordered_map<uint32_t, Entry> objects_;
    uint32_t last_id_ = 0;
};

} // namespace orrery::kernels::cpu
