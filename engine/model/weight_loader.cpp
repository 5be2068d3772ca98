#include "engine/model/weight_loader.h"

#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

namespace orrery {

using kernels::Buffer;
using kernels::Weight;
using kernels::WeightPart;

namespace {

/// Tensors that are configuration, or that no pass reads: rotations that are computed here.
bool may_be_left(std::string_view name) {
    return name == "rope_freqs.weight" || name.ends_with(".attn_rot_embd.weight");
}

} // namespace

DeviceTensors::~DeviceTensors() {
    for (const Weight weight : weights_)
        backend_.release(weight);
    for (const Buffer buffer : constants_)
        backend_.release(buffer);
}

Weight DeviceTensors::load(std::span<const WeightPart> parts) {
    weights_.reserve(weights_.size() + 1);
    return weights_.emplace_back(backend_.load_weight(parts));
}

Buffer DeviceTensors::load(std::span<const float> values) {
    constants_.reserve(constants_.size() + 1);
    const Buffer buffer = constants_.emplace_back(backend_.allocate(values.size_bytes()));
    backend_.upload(buffer, 0, std::as_bytes(values));
    return buffer;
}

WeightLoader::WeightLoader(const GgufFile& file, DeviceTensors& tensors, const LoadProgress& progress,
                           const std::atomic<bool>* cancel)
    : file_(file), tensors_(tensors), progress_(progress), cancel_(cancel) {
    for (const GgufTensor& tensor : file.tensors())
        if (!may_be_left(tensor.name))
            total_ += tensor.bytes.size();
}

WeightPart WeightLoader::part(const std::string& name, int64_t rows, int64_t columns) {
    const GgufTensor& tensor = need(name, {rows, columns});
    return {.type = tensor.type, .rows = rows, .columns = columns, .bytes = tensor.bytes.data()};
}

std::vector<WeightPart> WeightLoader::parts(const std::string& name, int64_t experts, int64_t rows,
                                            int64_t columns) {
    const GgufTensor& tensor = need(name, {experts, rows, columns});
    const size_t bytes =
        static_cast<size_t>(rows) * kernels::row_bytes(tensor.type, static_cast<size_t>(columns));
    std::vector<WeightPart> parts;
    for (int64_t i = 0; i < experts; ++i)
        parts.push_back({.type = tensor.type,
                         .rows = rows,
                         .columns = columns,
                         .bytes = tensor.bytes.data() + static_cast<size_t>(i) * bytes});
    return parts;
}

int64_t WeightLoader::rows_of(const std::string& name, int64_t max_rows) const {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (!tensor)
        fail("the tensor '" + name + "' is missing.");
    const size_t dimensions = tensor->shape.size();
    const int64_t rows = dimensions < 2 ? 0 : tensor->shape[dimensions - 2];
    if (rows < 1 || rows > max_rows)
        fail("the tensor '" + name + "' has the shape " + shape_text(tensor->shape) + "; a matrix of 1 to " +
             std::to_string(max_rows) + " rows is needed.");
    return rows;
}

Weight WeightLoader::weight(std::span<const WeightPart> parts) {
    check_cancelled();
    const Weight weight = tensors_.load(parts);
    size_t bytes = 0;
    for (const WeightPart& part : parts)
        bytes +=
            static_cast<size_t>(part.rows) * kernels::row_bytes(part.type, static_cast<size_t>(part.columns));
    report(bytes);
    return weight;
}

Buffer WeightLoader::vector(std::span<const VectorPart> parts) {
    check_cancelled();
    std::vector<float> values;
    bool any = false;
    size_t bytes = 0;
    for (const VectorPart& part : parts) {
        const size_t begin = values.size();
        values.resize(begin + static_cast<size_t>(part.size));
        if (part.optional && !has(part.name))
            continue;
        const GgufTensor& tensor = need(part.name, {part.size});
        kernels::decode(tensor.type, tensor.bytes.data(), values.data() + begin,
                        static_cast<size_t>(part.size));
        bytes += tensor.bytes.size();
        any = true;
    }
    if (!any)
        return {};
    const Buffer buffer = tensors_.load(values);
    report(bytes);
    return buffer;
}

void WeightLoader::check_nothing_left() const {
    for (const GgufTensor& tensor : file_.tensors())
        if (!used_.contains(tensor.name) && !may_be_left(tensor.name))
            fail("the tensor '" + tensor.name + "' belongs to no part of a model of this architecture.");
}

void WeightLoader::fail(const std::string& sentence) const {
    throw Error(platform::to_utf8(file_.path()) + ": " + sentence);
}

const GgufTensor& WeightLoader::need(const std::string& name, const std::vector<int64_t>& shape) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (!tensor)
        fail("the tensor '" + name + "' is missing.");
    if (tensor->shape != shape)
        fail("the tensor '" + name + "' has the shape " + shape_text(tensor->shape) + "; " +
             shape_text(shape) + " is needed.");
    used_.insert(tensor->name);
    file_.prefetch(*tensor);
    return *tensor;
}

void WeightLoader::check_cancelled() const {
    if (cancel_ && *cancel_)
        throw Cancelled("Loading " + platform::to_utf8(file_.path()) + " was cancelled.");
}

void WeightLoader::report(size_t bytes) {
    done_ += bytes;
    if (progress_)
        progress_(done_, total_);
}

} // namespace orrery
