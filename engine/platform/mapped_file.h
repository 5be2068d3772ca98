// A file's bytes as memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace orrery::platform {

/// Maps a whole file into memory for as long as the object lives. Pages are read when they are first
/// touched and belong to the system's page cache, so several processes share one copy of a model.
///
/// A file that is cut short while it is mapped cannot be guarded against on POSIX: touching a page beyond
/// its new end raises SIGBUS, which ends the process. Model files are written once and then replaced by
/// renaming, never rewritten in place, and this is what the downloads of this program do. Windows refuses
/// to shorten a mapped file.
class MappedFile {
public:
    /// Throws Error with the path and the system's reason where it cannot be opened or is no regular file.
    /// An empty file gives an empty span.
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    size_t size() const { return size_; }

    /// What the bytes will be used for next. Only ever a hint: it changes speed, never content.
    enum class Advice {
        sequential, ///< front to back: read ahead further
        will_need,  ///< soon: begin reading now, without waiting
        random,     ///< here and there: do not read ahead
    };
    /// For the pages that hold bytes [offset, offset + length), cut to the file.
    void advise(Advice advice, size_t offset = 0, size_t length = SIZE_MAX) const;

private:
    void unmap() noexcept;

    const std::byte* data_ = nullptr;
    size_t size_ = 0;
};

} // namespace orrery::platform
