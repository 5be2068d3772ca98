// A file's bytes as memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace orrery::platform {

/// Maps a whole file into memory for as long as the object lives. Pages are read when they are first
/// touched and belong to the system's page cache, so several processes share one copy of a model.
///
/// Another program may cut or rewrite the file meanwhile. On POSIX, touching a page beyond its new end raises
/// SIGBUS: a handler for the whole process, installed with the first mapping, then puts pages of zeros there
/// and notes the damage, so that reading goes on; a SIGBUS from anywhere else goes to the handler that was
/// there before. So what was read is right only where changed() says no afterwards. Windows does not let a
/// mapped file be written to. A file that is replaced by another (renamed, removed) is not changed.
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

    /// Whether the file has been cut or written to since it was mapped, by its size, its time of modification
    /// and the pages that could not be read. Always false on Windows.
    bool changed() const noexcept;

    /// What the bytes will be used for next. Only ever a hint: it changes speed, never content.
    enum class Advice {
        sequential, ///< front to back: read ahead further
        will_need,  ///< soon: begin reading now, without waiting
        random,     ///< here and there: do not read ahead
    };
    /// For the pages that hold bytes [offset, offset + length), cut to the file.
    void advise(Advice advice, size_t offset = 0, size_t length = SIZE_MAX) const;

private:
    struct Mapping;

    void unmap() noexcept;

    const std::byte* data_ = nullptr;
    size_t size_ = 0;
    std::unique_ptr<Mapping> mapping_; ///< what the system keeps of it; none for an empty file
};

} // namespace orrery::platform
