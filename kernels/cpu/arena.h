// Memory for what a program records: taken piece by piece, given back all at once, and kept for the next
// program, so that a pass like the one before takes none from the system.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace orrery::kernels::cpu {

class Arena {
public:
    /// A copy of `value` that stays where it is until clear(); it is not destroyed.
    template <class T>
    T* put(T&& value) {
        using Stored = std::remove_cvref_t<T>;
        static_assert(std::is_trivially_destructible_v<Stored>);
        return new (take(sizeof(Stored), alignof(Stored))) Stored(std::forward<T>(value));
    }
    template <class T>
    std::span<const T> put_all(std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>);
        auto* first = static_cast<T*>(take(values.size_bytes(), alignof(T)));
        std::uninitialized_copy(values.begin(), values.end(), first);
        return {first, values.size()};
    }
    void clear() {
        block_ = 0;
        used_ = 0;
    }

private:
    static constexpr size_t block_bytes = size_t{64} << 10;

    void* take(size_t bytes, size_t alignment) {
        for (;; ++block_, used_ = 0) {
            if (block_ == blocks_.size()) {
                const size_t size = bytes + alignment > block_bytes ? bytes + alignment : block_bytes;
                blocks_.push_back({std::make_unique<std::byte[]>(size), size});
            }
            Block& block = blocks_[block_];
            void* at = block.bytes.get() + used_;
            size_t left = block.size - used_;
            if (std::align(alignment, bytes, at, left) != nullptr) {
                used_ = block.size - left + bytes;
                return at;
            }
        }
    }

    struct Block {
        std::unique_ptr<std::byte[]> bytes;
        size_t size;
    };
    std::vector<Block> blocks_;
    size_t block_ = 0; ///< the one that is being filled
    size_t used_ = 0;  ///< bytes of it
};

} // namespace orrery::kernels::cpu
