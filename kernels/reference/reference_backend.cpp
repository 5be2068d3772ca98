#include "kernels/reference/reference_backend.h"

#include "kernels/platform/machine.h"
#include "kernels/reference/caches.h"
#include "kernels/reference/checks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace orrery::kernels {

using reference::number;
using reference::require;

namespace {

/// NaN as a float, as a binary16 and as the binary16 scale of a quantised group.
constexpr int poison_byte = 0xff;

} // namespace

ReferenceBackend::ReferenceBackend(const ReferenceOptions& options) : options_(options) {
    info_.name = "Reference";
    info_.why = options.why;
    info_.memory_bytes = options.memory_bytes;
}

ReferenceBackend::~ReferenceBackend() {
    for (const auto& [id, buffer] : buffers_)
        if (!buffer.borrowed)
            give_back(*buffer.content);
    for (const auto& [id, memory] : host_memories_)
        give_back(memory);
    for (const auto& [id, cache] : caches_)
        give_back(cache->memory);
    for (const auto& [id, state] : states_)
        give_back(state->memory);
}

std::unique_ptr<Backend> ReferenceBackend::share() {
    synchronize();
    auto other = std::make_unique<ReferenceBackend>(options_);
    other->shared_ = shared_;
    for (const auto& [id, buffer] : buffers_)
        other->buffers_.emplace(id, Shared<Memory>{buffer.content, true});
    for (const auto& [id, weight] : weights_)
        other->weights_.emplace(id, Shared<const StackedWeight>{weight.content, true});
    return other;
}

// Memory

ReferenceBackend::Memory ReferenceBackend::take_memory(size_t bytes, const char* what) {
    const std::string needed = "The reference back end needs " + platform::mebibytes(bytes) + " for " + what;
    if (options_.memory_bytes > 0) {
        const size_t free =
            options_.memory_bytes - std::min<size_t>(options_.memory_bytes, shared_->used_bytes);
        if (bytes > free)
            throw OutOfMemory(needed + ", but only " + platform::mebibytes(free) + " of its " +
                              platform::mebibytes(options_.memory_bytes) + " are free.");
    }
    Memory memory;
    // calloc gives zeros without touching the pages, so a large cache costs only what is used of it.
    if (platform::has_available(bytes))
        memory.bytes.reset(static_cast<std::byte*>(std::calloc(std::max<size_t>(bytes, 1), 1)));
    if (!memory.bytes)
        throw OutOfMemory(needed + ", but the machine has no more to give: " +
                          platform::mebibytes(shared_->used_bytes) + " are in use.");
    if (options_.poison)
        std::memset(memory.bytes.get(), poison_byte, bytes);
    memory.size = bytes;
    shared_->used_bytes += bytes;
    return memory;
}

Buffer ReferenceBackend::allocate(size_t bytes) {
    auto memory = std::make_shared<Memory>(take_memory(bytes, "a buffer"));
    const uint32_t id = new_id();
    buffers_.emplace(id, Shared<Memory>{std::move(memory), false});
    return {id};
}

void ReferenceBackend::release(Buffer buffer) {
    if (!buffer)
        return;
    synchronize();
    const Memory& memory = own_memory_of(buffer, "released");
    const auto entry = buffers_.find(buffer.id);
    require(entry->second.content.use_count() == 1,
            "Buffer " + number(buffer.id) + " cannot be released: a back end that shares it is still there.");
    give_back(memory);
    buffers_.erase(entry);
}

void ReferenceBackend::upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) {
    const Memory& memory = own_memory_of(buffer, "written");
    require(offset_bytes <= memory.size && bytes.size() <= memory.size - offset_bytes,
            "An upload of " + std::to_string(bytes.size()) + " bytes at offset " +
                std::to_string(offset_bytes) + " does not fit into a buffer of " +
                std::to_string(memory.size) + " bytes.");
    synchronize();
    std::copy(bytes.begin(), bytes.end(), memory.bytes.get() + offset_bytes);
}

void ReferenceBackend::download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) {
    const Memory& memory = memory_of(buffer);
    require(offset_bytes <= memory.size && bytes.size() <= memory.size - offset_bytes,
            "A download of " + std::to_string(bytes.size()) + " bytes at offset " +
                std::to_string(offset_bytes) + " reads past the end of a buffer of " +
                std::to_string(memory.size) + " bytes.");
    synchronize();
    const std::byte* begin = memory.bytes.get() + offset_bytes;
    std::copy(begin, begin + bytes.size(), bytes.begin());
}

HostMemory ReferenceBackend::allocate_host(size_t bytes) {
    Memory memory = take_memory(bytes, "blocks in host memory");
    const HostMemory host = {new_id(), memory.bytes.get(), bytes};
    host_memories_.emplace(host.id, std::move(memory));
    return host;
}

void ReferenceBackend::release(const HostMemory& memory) {
    if (!memory)
        return;
    synchronize();
    host_bytes(memory, 0, 0);
    give_back(host_memories_.at(memory.id));
    host_memories_.erase(memory.id);
}

Weight ReferenceBackend::load_weight(std::span<const WeightPart> parts) {
    require(!parts.empty(), "A weight needs at least one part.");
    auto weight = std::make_shared<StackedWeight>();
    weight->columns = parts.front().columns;
    for (const WeightPart& part : parts) {
        const TensorTypeInfo& layout = info(part.type);
        require(part.bytes != nullptr && part.rows > 0 && part.columns > 0,
                "A part of a weight is empty: " + number(part.rows) + " rows of " + number(part.columns) +
                    ".");
        require(part.columns == weight->columns,
                "The parts of a weight differ in width: " + number(weight->columns) + " and " +
                    number(part.columns) + " columns.");
        require(part.columns % layout.block_elements == 0,
                "Rows of " + number(part.columns) + " weights are no whole number of " + layout.name +
                    " blocks of " + std::to_string(layout.block_elements) + ".");
        const size_t bytes = row_bytes(part.type, static_cast<size_t>(part.columns));
        require(part.row_stride_bytes == 0 || part.row_stride_bytes >= bytes,
                "Rows of a weight that are " + std::to_string(bytes) + " bytes long begin every " +
                    std::to_string(part.row_stride_bytes) + " bytes.");
        weight->rows += part.rows;
        weight->bytes += static_cast<size_t>(part.rows) * bytes;
        weight->parts.push_back(part);
    }
    const uint32_t id = new_id();
    weights_.emplace(id, Shared<const StackedWeight>{std::move(weight), false});
    return {id};
}

void ReferenceBackend::StackedWeight::decode_row(int64_t row, float* out) const {
    auto part = parts.begin();
    for (; row >= part->rows; ++part)
        row -= part->rows;
    const auto width = static_cast<size_t>(columns);
    const size_t stride = part->row_stride_bytes > 0 ? part->row_stride_bytes : row_bytes(part->type, width);
    decode(part->type, part->bytes + static_cast<size_t>(row) * stride, out, width);
}

void ReferenceBackend::release(Weight weight) {
    if (!weight)
        return;
    synchronize();
    weight_of(weight);
    const auto entry = weights_.find(weight.id);
    require(!entry->second.borrowed && entry->second.content.use_count() == 1,
            "Weight " + number(weight.id) + " cannot be released: another back end shares it.");
    weights_.erase(entry);
}

size_t ReferenceBackend::weight_bytes(Weight weight) const {
    return weight_of(weight).bytes;
}

// The queue

void ReferenceBackend::enqueue(uint64_t KernelProfile::*family, std::function<void()> run) {
    queue_.push_back({family, std::move(run)});
    ++queued_;
}

void ReferenceBackend::run_until(uint64_t queued) {
    while (queued_ - queue_.size() < queued) {
        const Command command = std::move(queue_.front());
        queue_.pop_front();
        const auto start = std::chrono::steady_clock::now();
        try {
            command.run();
        } catch (...) {
            queue_.clear(); // what comes after it would work with half a result
            throw;
        }
        const auto taken = std::chrono::steady_clock::now() - start;
        if (profiling_)
            profile_.*command.family += static_cast<uint64_t>(std::chrono::nanoseconds(taken).count());
    }
}

Fence ReferenceBackend::fence() {
    return {queued_};
}

void ReferenceBackend::wait(Fence fence) {
    require(fence.value <= queued_, "Fence " + std::to_string(fence.value) +
                                        " is not of this back end, which has queued " +
                                        std::to_string(queued_) + " operations.");
    run_until(fence.value);
}

void ReferenceBackend::synchronize() {
    run_until(queued_);
}

void ReferenceBackend::set_profiling(bool on) {
    synchronize();
    profiling_ = on;
}

KernelProfile ReferenceBackend::take_profile() {
    return std::exchange(profile_, {});
}

// Handles and views

ReferenceBackend::Memory& ReferenceBackend::memory_of(Buffer buffer) const {
    const auto entry = buffers_.find(buffer.id);
    require(entry != buffers_.end(), "Handle " + number(buffer.id) + " names no buffer, or a released one.");
    return *entry->second.content;
}

ReferenceBackend::Memory& ReferenceBackend::own_memory_of(Buffer buffer, const char* what) const {
    Memory& memory = memory_of(buffer);
    require(!buffers_.at(buffer.id).borrowed,
            "Buffer " + number(buffer.id) + " belongs to another back end and cannot be " + what + ".");
    return memory;
}

std::byte* ReferenceBackend::bytes_of(Buffer buffer, size_t bytes, const std::string& what) const {
    require(static_cast<bool>(buffer), "No buffer is given for " + what + ".");
    const Memory& memory = memory_of(buffer);
    require(bytes <= memory.size, "The buffer for " + what + " holds " + std::to_string(memory.size) +
                                      " bytes, not " + std::to_string(bytes) + ".");
    return memory.bytes.get();
}

std::span<float> ReferenceBackend::floats(Buffer buffer, size_t count, const std::string& what) const {
    return {
        reinterpret_cast<float*>(bytes_of(buffer, reference::saturating_product(count, sizeof(float)), what)),
        count};
}

std::span<float> ReferenceBackend::optional_floats(Buffer buffer, size_t count,
                                                   const std::string& what) const {
    return buffer ? floats(buffer, count, what) : std::span<float>();
}

reference::Rows ReferenceBackend::rows_of(const View& view, int64_t rows, int64_t columns,
                                          const std::string& what) const {
    require(static_cast<bool>(view), "No buffer is given for " + what + ".");
    require(view.rows == rows && view.columns == columns,
            "The view for " + what + " is " + number(view.rows) + " × " + number(view.columns) + ", not " +
                number(rows) + " × " + number(columns) + ".");
    require(rows >= 0 && columns > 0 && view.offset >= 0 && (rows <= 1 || view.row_stride >= columns),
            "The view for " + what + " has " + number(rows) + " rows of " + number(columns) +
                " elements from element " + number(view.offset) + " on, " + number(view.row_stride) +
                " elements apart.");
    const Memory& memory = memory_of(view.buffer);
    const auto elements = static_cast<int64_t>(memory.size / element_bytes(view.type));
    const int64_t steps = std::max<int64_t>(rows - 1, 0);
    require(rows == 0 || (columns <= elements && view.offset <= elements - columns &&
                          (steps == 0 || view.row_stride <= (elements - columns - view.offset) / steps)),
            "The view for " + what + ", " + number(rows) + " rows of " + number(columns) +
                " elements from element " + number(view.offset) + " on, " + number(view.row_stride) +
                " elements apart, does not lie in a buffer of " + number(elements) + " elements.");
    return {memory.bytes.get() + static_cast<size_t>(view.offset) * element_bytes(view.type),
            static_cast<size_t>(rows), static_cast<size_t>(columns), static_cast<size_t>(view.row_stride),
            view.type};
}

reference::Rows ReferenceBackend::rows_to(const View& view, int64_t rows, int64_t columns,
                                          const std::string& what) const {
    const reference::Rows found = rows_of(view, rows, columns, what);
    own_memory_of(view.buffer, "written");
    return found;
}

reference::NormValues ReferenceBackend::values_of(const Norm& norm, int64_t columns,
                                                  const std::string& what) const {
    if (norm.kind == NormKind::none)
        return {};
    const auto count = static_cast<size_t>(columns);
    return {norm.kind, optional_floats(norm.weight, count, what + "'s weight"),
            optional_floats(norm.bias, count, what + "'s bias"), norm.eps, norm.weight_offset};
}

const ReferenceBackend::StackedWeight& ReferenceBackend::weight_of(Weight weight) const {
    const auto entry = weights_.find(weight.id);
    require(entry != weights_.end(), "Handle " + number(weight.id) + " names no weight, or a released one.");
    return *entry->second.content;
}

std::byte* ReferenceBackend::host_bytes(const HostMemory& memory, size_t offset, size_t bytes) const {
    const auto entry = host_memories_.find(memory.id);
    require(entry != host_memories_.end(),
            "Handle " + number(memory.id) + " names no host memory, or a released one.");
    const size_t size = entry->second.size;
    require(offset <= size && bytes <= size - offset,
            std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                " do not fit into host memory of " + std::to_string(size) + " bytes.");
    return entry->second.bytes.get() + offset;
}

} // namespace orrery::kernels

namespace orrery::kernels::reference {

size_t saturating_product(size_t a, size_t b) {
    const size_t largest = std::numeric_limits<size_t>::max();
    return b != 0 && a > largest / b ? largest : a * b;
}

bool overlap(const View& a, const View& b) {
    if (a.buffer.id != b.buffer.id)
        return false;
    const auto bytes_a = static_cast<int64_t>(element_bytes(a.type));
    const auto bytes_b = static_cast<int64_t>(element_bytes(b.type));
    for (int64_t row = 0; row < a.rows; ++row) {
        const int64_t begin = (a.offset + row * a.row_stride) * bytes_a;
        const int64_t end = begin + a.columns * bytes_a;
        // Of b's rows that end behind `begin`, the first begins soonest.
        const int64_t stride = std::max<int64_t>(b.row_stride, 1) * bytes_b;
        const int64_t first_end = (b.offset + b.columns) * bytes_b;
        const int64_t first = begin < first_end ? 0 : (begin - first_end) / stride + 1;
        if (first < b.rows && b.offset * bytes_b + first * stride < end)
            return true;
    }
    return false;
}

void require_apart(const View& out, std::initializer_list<View> inputs, const char* operation) {
    for (const View& input : inputs)
        require(!input || !overlap(out, input),
                std::string(operation) + " cannot write to elements that it reads: " + number(out.offset) +
                    " and " + number(input.offset) + " of buffer " + number(out.buffer.id) + ".");
}

} // namespace orrery::kernels::reference
