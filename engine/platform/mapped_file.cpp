#include "engine/platform/mapped_file.h"

#include "engine/platform/file.h"
#include "engine/platform/guarded_range.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <algorithm>
#include <system_error>
#include <utility>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace orrery::platform {

namespace {

[[noreturn]] void fail_no_file(const std::filesystem::path& path, bool folder) {
    throw Error(to_utf8(path) + (folder ? " is a folder, not a file." : " is not a regular file."));
}

} // namespace

#ifdef _WIN32

/// The view keeps file and mapping open by itself.
struct MappedFile::Mapping {};

namespace {

struct Handle {
    HANDLE value = nullptr;
    ~Handle() {
        if (value && value != INVALID_HANDLE_VALUE)
            CloseHandle(value);
    }
};

std::error_code last_error() {
    return {static_cast<int>(GetLastError()), std::system_category()};
}

} // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
    const DWORD attributes = GetFileAttributesW(path.c_str());
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        fail_no_file(path, true);
    // Others may read and rename the file, but not write to it, while it is mapped.
    const Handle file{CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr)};
    if (file.value == INVALID_HANDLE_VALUE)
        refuse_file(path, "opened", last_error());
    if (GetFileType(file.value) != FILE_TYPE_DISK)
        fail_no_file(path, false);
    LARGE_INTEGER size;
    if (!GetFileSizeEx(file.value, &size))
        refuse_file(path, "measured", last_error());
    if (size.QuadPart == 0)
        return; // an empty mapping is an error to the system, and an empty span to us
    const Handle mapping{CreateFileMappingW(file.value, nullptr, PAGE_READONLY, 0, 0, nullptr)};
    if (!mapping.value)
        refuse_file(path, "mapped into memory", last_error());
    const void* view = MapViewOfFile(mapping.value, FILE_MAP_READ, 0, 0, 0);
    if (!view)
        refuse_file(path, "mapped into memory", last_error());
    data_ = static_cast<const std::byte*>(view);
    size_ = static_cast<size_t>(size.QuadPart);
}

void MappedFile::unmap() noexcept {
    if (data_)
        UnmapViewOfFile(data_);
    data_ = nullptr;
    size_ = 0;
}

bool MappedFile::changed() const noexcept {
    return false;
}

void MappedFile::advise(Advice advice, size_t offset, size_t length) const {
    offset = std::min(offset, size_);
    length = std::min(length, size_ - offset);
    if (advice != Advice::will_need || length == 0)
        return; // Windows has no words for the others on a view
    WIN32_MEMORY_RANGE_ENTRY range{const_cast<std::byte*>(data_ + offset), length};
    PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

#else

namespace {

struct Descriptor {
    int value = -1;

    explicit Descriptor(int its_value) : value(its_value) {}
    ~Descriptor() {
        if (value >= 0)
            ::close(value);
    }
    Descriptor(Descriptor&& other) noexcept : value(std::exchange(other.value, -1)) {}
};

std::error_code last_error() {
    return {errno, std::generic_category()};
}

timespec modification_time(const struct stat& status) {
#ifdef __APPLE__
    return status.st_mtimespec;
#else
    return status.st_mtim;
#endif
}

} // namespace

struct MappedFile::Mapping {
    Descriptor file; ///< to ask for the file's state, whatever its name is by then
    off_t size;
    timespec modified;
    GuardedRange range;
};

MappedFile::MappedFile(const std::filesystem::path& path) {
    // O_NONBLOCK: opening a named pipe must fail below instead of waiting for a writer.
    Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.value < 0)
        refuse_file(path, "opened", last_error());
    struct stat status;
    if (::fstat(file.value, &status) != 0)
        refuse_file(path, "measured", last_error());
    if (!S_ISREG(status.st_mode))
        fail_no_file(path, S_ISDIR(status.st_mode));
    if (status.st_size == 0)
        return; // an empty mapping is an error to the system, and an empty span to us
    const auto size = static_cast<size_t>(status.st_size);
    void* view = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
    if (view == MAP_FAILED)
        refuse_file(path, "mapped into memory", last_error());
    data_ = static_cast<const std::byte*>(view);
    size_ = size;
    try {
        mapping_.reset(new Mapping{std::move(file), status.st_size, modification_time(status),
                                   GuardedRange(view, size)});
    } catch (...) {
        unmap();
        throw;
    }
}

void MappedFile::unmap() noexcept {
    mapping_.reset();
    if (data_)
        ::munmap(const_cast<std::byte*>(data_), size_);
    data_ = nullptr;
    size_ = 0;
}

bool MappedFile::changed() const noexcept {
    if (!mapping_)
        return false;
    struct stat status;
    if (mapping_->range.damaged() || ::fstat(mapping_->file.value, &status) != 0)
        return true;
    const timespec modified = modification_time(status);
    return status.st_size != mapping_->size || modified.tv_sec != mapping_->modified.tv_sec ||
           modified.tv_nsec != mapping_->modified.tv_nsec;
}

void MappedFile::advise(Advice advice, size_t offset, size_t length) const {
    offset = std::min(offset, size_);
    length = std::min(length, size_ - offset);
    if (length == 0)
        return;
    // madvise takes whole pages; the mapping itself begins on one.
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t begin = offset / page * page;
    const int word = advice == Advice::sequential  ? MADV_SEQUENTIAL
                     : advice == Advice::will_need ? MADV_WILLNEED
                                                   : MADV_RANDOM;
    ::madvise(const_cast<std::byte*>(data_ + begin), offset + length - begin, word);
}

#endif

MappedFile::~MappedFile() {
    unmap();
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::move(other.mapping_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        unmap();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        mapping_ = std::move(other.mapping_);
    }
    return *this;
}

} // namespace orrery::platform
