// Takes tensors from a model file to a device one after the other, and keeps account of them.
#pragma once

#include "engine/model/gguf.h"
#include "kernels/backend.h"

#include <atomic>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

using LoadProgress = std::function<void(size_t bytes_done, size_t bytes_total)>;

/// Weights and constants on a device, for as long as this lives.
class DeviceTensors {
public:
    explicit DeviceTensors(kernels::Backend& backend) : backend_(backend) {}
    ~DeviceTensors();
    DeviceTensors(const DeviceTensors&) = delete;
    DeviceTensors& operator=(const DeviceTensors&) = delete;

    kernels::Backend& backend() const { return backend_; }
    kernels::Weight load(std::span<const kernels::WeightPart> parts);
    kernels::Buffer load(std::span<const float> values);

private:
    kernels::Backend& backend_;
    std::vector<kernels::Weight> weights_;
    std::vector<kernels::Buffer> constants_;
};

/// All of these throw Error for a tensor that is missing or has a wrong shape, Cancelled once `*cancel` is
/// true, OutOfMemory.
class WeightLoader {
public:
    /// The arguments have to outlive the object.
    WeightLoader(const GgufFile& file, DeviceTensors& tensors, const LoadProgress& progress,
                 const std::atomic<bool>* cancel);

    bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

    /// The tensor's rows as a part of a weight, [rows, columns].
    kernels::WeightPart part(const std::string& name, int64_t rows, int64_t columns);
    /// The tensor's matrices as parts, [experts, rows, columns].
    std::vector<kernels::WeightPart> parts(const std::string& name, int64_t experts, int64_t rows,
                                           int64_t columns);
    /// The rows of a matrix, or of each of a tensor's matrices, from 1 to `max_rows`.
    int64_t rows_of(const std::string& name, int64_t max_rows) const;
    kernels::Weight weight(std::span<const kernels::WeightPart> parts);
    /// Bytes that a pass over a weight reads on the device.
    size_t bytes(kernels::Weight weight) const { return tensors_.backend().weight_bytes(weight); }

    /// Vectors, one after the other, as float32 on the device. Those that are optional may be missing and
    /// are zero then. None where all of them are.
    struct VectorPart {
        std::string name;
        int64_t size = 0;
        bool optional = false;
    };
    kernels::Buffer vector(std::span<const VectorPart> parts);

    /// Once all has been taken: a tensor that is left would be a part of the model that is not computed.
    void check_nothing_left() const;

private:
    [[noreturn]] void fail(const std::string& sentence) const;
    const GgufTensor& need(const std::string& name, const std::vector<int64_t>& shape);
    void check_cancelled() const;
    void report(size_t bytes);

    const GgufFile& file_;
    DeviceTensors& tensors_;
    const LoadProgress& progress_;
    const std::atomic<bool>* cancel_;
    size_t done_ = 0;
    size_t total_ = 0;
    std::set<std::string_view> used_;
};

} // namespace orrery
