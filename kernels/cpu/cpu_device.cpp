#include "kernels/cpu/cpu_device.h"

#include "kernels/cpu/cpu_features.h"
#include "kernels/error.h"
#include "kernels/platform/machine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace orrery::kernels::cpu {

namespace {

int default_threads() {
    return platform::usable_cores(platform::processor_share(), cpu_features().threads_per_core);
}

} // namespace

CpuBackend::CpuBackend(const KernelTable& kernels, int threads, std::string why)
    : kernels_(kernels),
      pool_(std::make_shared<ThreadPool>(threads > 0 ? threads : default_threads())),
      used_bytes_(std::make_shared<std::atomic<size_t>>(0)),
      program_(kernels, *pool_) {
    info_.name = kernels.name;
    info_.why = std::move(why);
    info_.threads = pool_->threads();
    info_.memory_bytes = platform::memory_info().total_bytes;
    // Measured on prompts of 512 and 2,048 tokens: passes of 96 to 512 rows cost the same per row, within
    // 5 %.
    info_.efficient_rows = 128;
}

CpuBackend::CpuBackend(const CpuBackend& other)
    : kernels_(other.kernels_),
      pool_(other.pool_),
      used_bytes_(other.used_bytes_),
      program_(kernels_, *pool_),
      info_(other.info_) {
    buffers_.borrow(other.buffers_);
    weights_.borrow(other.weights_);
}

std::unique_ptr<Backend> CpuBackend::share() {
    synchronize();
    return std::make_unique<CpuBackend>(*this);
}

Buffer CpuBackend::allocate(size_t bytes) {
    auto allocation = take(bytes, "a buffer");
    std::memset(allocation->memory.get(), 0, bytes);
    return buffers_.add(std::move(allocation));
}

void CpuBackend::release(Buffer buffer) {
    synchronize();
    const size_t bytes = buffers_.read(buffer).bytes;
    buffers_.remove(buffer);
    *used_bytes_ -= bytes;
}

void CpuBackend::upload(Buffer buffer, size_t offset_bytes, std::span<const std::byte> bytes) {
    synchronize();
    std::copy(bytes.begin(), bytes.end(),
              checked(buffer, buffers_.write(buffer), offset_bytes, bytes.size()));
}

void CpuBackend::download(Buffer buffer, size_t offset_bytes, std::span<std::byte> bytes) {
    synchronize();
    std::copy_n(checked(buffer, buffers_.read(buffer), offset_bytes, bytes.size()), bytes.size(),
                bytes.begin());
}

HostMemory CpuBackend::allocate_host(size_t bytes) {
    auto allocation = take(bytes, "blocks on the host");
    std::byte* start = allocation->memory.get();
    HostMemory memory = host_.add(std::move(allocation));
    memory.bytes = start;
    memory.size = bytes;
    return memory;
}

void CpuBackend::release(const HostMemory& memory) {
    synchronize();
    const size_t bytes = host_.read(memory).bytes;
    host_.remove(memory);
    *used_bytes_ -= bytes;
}

Weight CpuBackend::load_weight(std::span<const WeightPart> parts) {
    synchronize();
    auto weight = std::make_shared<CpuWeight>();
    for (const WeightPart& part : parts) {
        if (!weight->slices.empty() && part.columns != weight->columns)
            throw Error("The parts of a weight differ in width: " + std::to_string(weight->columns) +
                        " and " + std::to_string(part.columns) + " columns.");
        if (tensor_type_info(static_cast<uint32_t>(part.type)) == nullptr)
            throw Error("A weight has the unknown type " + std::to_string(static_cast<uint32_t>(part.type)) +
                        ".");
        const TensorTypeInfo& type = info(part.type);
        if (part.rows <= 0 || part.columns <= 0 || part.columns % type.block_elements != 0)
            throw Error("A weight of " + std::to_string(part.rows) + " rows and " +
                        std::to_string(part.columns) + " columns cannot be " + type.name + ".");
        const size_t bytes = row_bytes(part.type, static_cast<size_t>(part.columns));
        if (part.row_stride_bytes != 0 && part.row_stride_bytes < bytes)
            throw Error("Rows of " + std::to_string(bytes) + " bytes cannot lie " +
                        std::to_string(part.row_stride_bytes) + " bytes apart.");
        WeightSlice slice;
        slice.part = part;
        slice.first_row = weight->rows;
        slice.first_tile = weight->tiles;
        slice.row_bytes = bytes;
        slice.row_stride = part.row_stride_bytes != 0 ? part.row_stride_bytes : bytes;
        slice.is_packed = is_packed_type(part.type);
        if (slice.is_packed) {
            const auto needed = static_cast<size_t>(packed_bytes(part.type, part.rows, part.columns));
            check_memory(needed, "the weights");
            slice.packed = make_packed(part.type, part.rows, part.columns);
            if (slice.packed.memory == nullptr)
                refuse(needed, "the weights");
        }
        weight->columns = part.columns;
        weight->rows += part.rows;
        weight->tiles += slice.tiles();
        (slice.is_packed ? weight->has_packed : weight->has_dense) = true;
        weight->slices.push_back(std::move(slice));
    }
    if (weight->slices.empty())
        throw Error("A weight needs at least one part.");
    for (WeightSlice& slice : weight->slices)
        if (slice.is_packed)
            pool_->parallel(slice.tiles(), std::max<int64_t>(1, slice.tiles() / (pool_->threads() * 4)),
                            [&slice](int64_t first, int64_t last, int) {
                                pack_tiles(slice.packed, slice.part.type, slice.part.bytes, slice.row_stride,
                                           first, last);
                            });
    *used_bytes_ += weight->owned_bytes();
    return weights_.add(std::move(weight));
}

void CpuBackend::release(Weight weight) {
    synchronize();
    const size_t bytes = weights_.read(weight).owned_bytes();
    weights_.remove(weight);
    *used_bytes_ -= bytes;
}

KvCache CpuBackend::create_kv_cache(const KvCacheSpec& spec) {
    if (spec.value_in_key && spec.value_length > spec.key_length)
        throw Error("A value of " + std::to_string(spec.value_length) +
                    " elements does not lie in a key of " + std::to_string(spec.key_length) + ".");
    auto store = std::make_shared<KvStore>(spec);
    check_memory(store->bytes(), "the key/value cache");
    if (!store->allocate())
        refuse(store->bytes(), "the key/value cache");
    *used_bytes_ += store->bytes();
    return caches_.add(std::move(store));
}

void CpuBackend::release(KvCache cache) {
    synchronize();
    const size_t bytes = caches_.read(cache).bytes();
    caches_.remove(cache);
    *used_bytes_ -= bytes;
}

void CpuBackend::copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) {
    KvStore& store = caches_.write(cache);
    for (const BlockCopy& copy : copies) {
        check_block(store, copy.from);
        check_block(store, copy.to);
    }
    program_.copy_blocks(store, copies);
}

void CpuBackend::copy_kv_blocks_out(KvCache cache, std::span<const BlockTransfer> transfers,
                                    const HostMemory& to) {
    KvStore& store = caches_.write(cache);
    program_.copy_blocks_out(store, transfers, checked(store, transfers, to));
}

void CpuBackend::copy_kv_blocks_in(KvCache cache, std::span<const BlockTransfer> transfers,
                                   const HostMemory& from) {
    KvStore& store = caches_.write(cache);
    program_.copy_blocks_in(store, transfers, checked(store, transfers, from));
}

StateCache CpuBackend::create_state_cache(const StateCacheSpec&) {
    not_built("Recurrent state");
}

void CpuBackend::release(StateCache) {
    not_built("Recurrent state");
}

size_t CpuBackend::state_slot_bytes(const StateCacheSpec&) const {
    not_built("Recurrent state");
}

void CpuBackend::copy_state_slots(StateCache, std::span<const BlockCopy>) {
    not_built("Recurrent state");
}

void CpuBackend::copy_state_slots_out(StateCache, std::span<const BlockTransfer>, const HostMemory&) {
    not_built("Recurrent state");
}

void CpuBackend::copy_state_slots_in(StateCache, std::span<const BlockTransfer>, const HostMemory&) {
    not_built("Recurrent state");
}

void CpuBackend::not_built(const char* what) {
    throw Error(std::string(what) + " is not built yet on the CPU.");
}

void CpuBackend::refuse(size_t bytes, const char* what) const {
    throw OutOfMemory("Not enough memory for " + std::string(what) + ": " + platform::mebibytes(bytes) +
                      " are needed, " + platform::mebibytes(platform::memory_info().available_bytes) +
                      " are available, and of the machine's " + platform::mebibytes(info_.memory_bytes) +
                      " this engine holds " + platform::mebibytes(*used_bytes_) + " already.");
}

void CpuBackend::check_memory(size_t bytes, const char* what) const {
    const bool passes_machine =
        info_.memory_bytes != 0 && (bytes > info_.memory_bytes || *used_bytes_ > info_.memory_bytes - bytes);
    if (passes_machine || !platform::has_available(bytes))
        refuse(bytes, what);
}

std::shared_ptr<CpuBackend::Allocation> CpuBackend::take(size_t bytes, const char* what) {
    check_memory(bytes, what);
    auto allocation = std::make_shared<Allocation>();
    allocation->memory = allocate_memory(std::max<size_t>(bytes, 1));
    if (allocation->memory == nullptr)
        refuse(bytes, what);
    allocation->bytes = bytes;
    *used_bytes_ += bytes;
    return allocation;
}

std::byte* CpuBackend::checked(Buffer buffer, const Allocation& a, size_t offset_bytes, size_t bytes) {
    if (offset_bytes > a.bytes || bytes > a.bytes - offset_bytes)
        throw Error("Buffer " + std::to_string(buffer.id) + " holds " + std::to_string(a.bytes) +
                    " bytes: " + std::to_string(bytes) + " bytes at " + std::to_string(offset_bytes) +
                    " lie beyond its end.");
    return a.memory.get() + offset_bytes;
}

const float* CpuBackend::floats(Buffer buffer, int64_t count) const {
    return reinterpret_cast<const float*>(
        checked(buffer, buffers_.read(buffer), 0, static_cast<size_t>(count) * sizeof(float)));
}

Rows CpuBackend::rows(const View& view, int64_t rows, int64_t columns) const {
    if (view.type != ElementType::f32)
        throw Error("The CPU computes with float32 activations alone: a view has elements of 16 bits.");
    if (view.rows != rows || view.columns != columns)
        throw Error("A view is [" + std::to_string(view.rows) + ", " + std::to_string(view.columns) +
                    "] where the operation needs [" + std::to_string(rows) + ", " + std::to_string(columns) +
                    "].");
    if (view.offset < 0 || view.row_stride < view.columns)
        throw Error("A view of " + std::to_string(view.columns) + " columns has the offset " +
                    std::to_string(view.offset) + " and the row stride " + std::to_string(view.row_stride) +
                    ".");
    const int64_t count = rows > 0 ? (rows - 1) * view.row_stride + columns : 0;
    return {reinterpret_cast<float*>(checked(view.buffer, buffers_.write(view.buffer),
                                             static_cast<size_t>(view.offset) * sizeof(float),
                                             static_cast<size_t>(count) * sizeof(float))),
            view.row_stride};
}

void CpuBackend::check_block(const KvStore& store, int32_t block) {
    if (block < 0 || block >= store.spec().blocks)
        throw Error("The key/value cache has " + std::to_string(store.spec().blocks) +
                    " blocks: there is no block " + std::to_string(block) + ".");
}

void CpuBackend::check_layer(const KvStore& store, int layer) {
    if (layer < 0 || layer >= store.spec().layers)
        throw Error("The key/value cache has " + std::to_string(store.spec().layers) +
                    " layers: there is no layer " + std::to_string(layer) + ".");
}

std::byte* CpuBackend::checked(const KvStore& store, std::span<const BlockTransfer> transfers,
                               const HostMemory& memory) const {
    const Allocation& host = host_.read(memory);
    for (const BlockTransfer& transfer : transfers) {
        check_block(store, transfer.block);
        if (transfer.host_offset > host.bytes || store.block_bytes() > host.bytes - transfer.host_offset)
            throw Error("The host memory holds " + std::to_string(host.bytes) + " bytes: a block of " +
                        std::to_string(store.block_bytes()) + " bytes at " +
                        std::to_string(transfer.host_offset) + " lies beyond its end.");
    }
    return host.memory.get();
}

} // namespace orrery::kernels::cpu
