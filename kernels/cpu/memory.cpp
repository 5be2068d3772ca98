#include "kernels/cpu/memory.h"

#include "kernels/platform/machine.h"

#include <new>

namespace orrery::kernels::cpu {

namespace {
constexpr size_t huge_page = size_t{2} << 20;
// operator new with an alignment works with every C++17 library, Windows' included; operator delete has to
// be told the same alignment again.
constexpr std::align_val_t small_alignment{cache_line};
constexpr std::align_val_t large_alignment{huge_page};
} // namespace

void FreeMemory::operator()(std::byte* bytes) const noexcept {
    // The first cache line before the block says which alignment it was made with.
    const size_t header = *reinterpret_cast<const size_t*>(bytes - cache_line);
    ::operator delete(bytes - header, header == huge_page ? large_alignment : small_alignment);
}

Memory allocate_memory(size_t bytes) {
    const bool large = bytes >= huge_page;
    // Room for the header in front; a large block starts a whole huge page later so that it stays aligned
    // (the page in front is address space, of which only the last 4 KiB are ever touched).
    const size_t header = large ? huge_page : cache_line;
    void* raw = ::operator new(align_up(bytes, cache_line) + header,
                               large ? large_alignment : small_alignment, std::nothrow);
    if (raw == nullptr)
        return nullptr;
    auto* start = static_cast<std::byte*>(raw) + header;
    if (large)
        platform::advise_huge_pages(start, bytes / huge_page * huge_page);
    *reinterpret_cast<size_t*>(start - cache_line) = header;
    return Memory(start);
}

} // namespace orrery::kernels::cpu
