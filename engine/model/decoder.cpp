#include "engine/model/decoder.h"

#include "engine/model/gguf.h"
#include "engine/model/rope_table.h"
#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace orrery {

using kernels::Backend;
using kernels::Buffer;
using kernels::Norm;
using kernels::NormKind;
using kernels::View;
using kernels::Weight;
using kernels::WeightPart;

namespace {

struct Layer {
    Buffer attention_norm; ///< [hidden]
    Weight qkv;            ///< query, key and value rows of all heads, [.., hidden]
    Buffer qkv_bias;       ///< or none
    Weight attention_out;  ///< [hidden, heads · value_length]
    Buffer attention_out_bias;
    Buffer feed_forward_norm;
    Weight gate_up; ///< [2 · feed_forward, hidden]
    Buffer gate_up_bias;
    Weight down; ///< [hidden, feed_forward]
    Buffer down_bias;
};

/// Scratch memory of a pass.
struct Scratch {
    int max_rows = 0;
    int max_outputs = 0;
    int max_positions = 0;
    Buffer x;         ///< the residual stream, [rows, hidden]
    Buffer qkv;       ///< [rows, (heads + kv_heads) · key_length + kv_heads · value_length]
    Buffer attention; ///< [rows, heads · value_length]
    Buffer gate_up;   ///< [rows, 2 · feed_forward]
    Buffer outputs;   ///< [outputs, hidden]
    Buffer logits;    ///< [outputs, vocab]
    Buffer rope;      ///< [positions, dimensions / 2, 2]
};

constexpr std::array scratch_buffers = {&Scratch::x,       &Scratch::qkv,     &Scratch::attention,
                                        &Scratch::gate_up, &Scratch::outputs, &Scratch::logits,
                                        &Scratch::rope};

/// Tensors that files of some converters hold and nobody reads: rotations that are computed here.
bool may_be_left(std::string_view name) {
    return name == "rope_freqs.weight" || name.ends_with(".attn_rot_embd.weight") ||
           name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
}

} // namespace

struct Decoder::Impl {
    std::shared_ptr<const GgufFile> file;
    ModelConfig config;
    Backend& backend;

    // Everything on the device, for the end.
    std::vector<Weight> weights;
    std::vector<Buffer> constants;
    size_t bytes_per_pass = 0;

    Weight embedding;
    std::vector<Layer> layers;
    Buffer output_norm;
    Weight output;
    Scratch scratch;
    int output_rows = 0; ///< of the last pass

    Impl(std::shared_ptr<const GgufFile> model_file, const ModelConfig& model_config, Backend& device)
        : file(std::move(model_file)), config(model_config), backend(device) {}

    ~Impl() {
        release_all_but({}, scratch);
        for (const Weight weight : weights)
            backend.release(weight);
        for (const Buffer buffer : constants)
            backend.release(buffer);
    }

    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    /// Releases those buffers of `old` that are not in `kept` as well.
    void release_all_but(const Scratch& kept, const Scratch& old) {
        for (const auto member : scratch_buffers)
            if (old.*member && (old.*member).id != (kept.*member).id)
                backend.release(old.*member);
    }

    int64_t query_rows() const { return int64_t{config.heads} * config.key_length; }
    int64_t key_rows() const { return int64_t{config.kv_heads} * config.key_length; }
    int64_t value_rows() const { return int64_t{config.kv_heads} * config.value_length; }
    int64_t attention_columns() const { return int64_t{config.heads} * config.value_length; }

    [[noreturn]] void fail(const std::string& sentence) const {
        throw Error(platform::to_utf8(file->path()) + ": " + sentence);
    }
};

namespace {

/// Takes tensors from the file to the device one after the other, and keeps account of them.
class Loader {
public:
    Loader(const GgufFile& file, Backend& backend, const Decoder::Progress& progress,
           const std::atomic<bool>* cancel)
        : file_(file), backend_(backend), progress_(progress), cancel_(cancel) {
        for (const GgufTensor& tensor : file.tensors())
            if (!may_be_left(tensor.name))
                total_ += tensor.bytes.size();
    }

    /// The tensor's rows as a part of a weight, [rows, columns].
    WeightPart part(const std::string& name, int64_t rows, int64_t columns) {
        const GgufTensor& tensor = need(name, {rows, columns});
        return {tensor.type, rows, columns, tensor.bytes.data()};
    }

    Weight weight(std::span<const WeightPart> parts, std::vector<Weight>& all) {
        check_cancelled();
        const Weight weight = backend_.load_weight(parts);
        all.push_back(weight);
        size_t bytes = 0;
        for (const WeightPart& part : parts)
            bytes += static_cast<size_t>(part.rows) *
                     kernels::row_bytes(part.type, static_cast<size_t>(part.columns));
        report(bytes);
        return weight;
    }

    /// A vector as float32 on the device; vectors that are stacked may each be missing and are zero then.
    /// None where all of them are.
    struct VectorPart {
        std::string name;
        int64_t size = 0;
        bool optional = false;
    };
    Buffer vector(std::initializer_list<VectorPart> parts, std::vector<Buffer>& all) {
        check_cancelled();
        std::vector<float> values;
        bool any = false;
        size_t bytes = 0;
        for (const VectorPart& part : parts) {
            const size_t begin = values.size();
            values.resize(begin + static_cast<size_t>(part.size));
            if (part.optional && !file_.find_tensor(part.name))
                continue;
            const GgufTensor& tensor = need(part.name, {part.size});
            kernels::decode(tensor.type, tensor.bytes.data(), values.data() + begin,
                            static_cast<size_t>(part.size));
            bytes += tensor.bytes.size();
            any = true;
        }
        if (!any)
            return {};
        const Buffer buffer = backend_.allocate(values.size() * sizeof(float));
        all.push_back(buffer);
        backend_.upload(buffer, 0, std::as_bytes(std::span<const float>(values)));
        report(bytes);
        return buffer;
    }

    /// Once all has been taken: a tensor that is left would be a part of the model that was not computed.
    void check_nothing_left() const {
        for (const GgufTensor& tensor : file_.tensors())
            if (!used_.contains(tensor.name) && !may_be_left(tensor.name))
                fail("the tensor '" + tensor.name + "' belongs to no part of a model of this architecture.");
    }

    bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

private:
    [[noreturn]] void fail(const std::string& sentence) const {
        throw Error(platform::to_utf8(file_.path()) + ": " + sentence);
    }

    const GgufTensor& need(const std::string& name, const std::vector<int64_t>& shape) {
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

    void check_cancelled() const {
        if (cancel_ && *cancel_)
            throw Cancelled("Loading " + platform::to_utf8(file_.path()) + " was cancelled.");
    }

    void report(size_t bytes) {
        done_ += bytes;
        if (progress_)
            progress_(done_, total_);
    }

    const GgufFile& file_;
    Backend& backend_;
    const Decoder::Progress& progress_;
    const std::atomic<bool>* cancel_;
    size_t done_ = 0;
    size_t total_ = 0;
    std::set<std::string_view> used_;
};

} // namespace

Decoder::Decoder(std::shared_ptr<const GgufFile> file, const ModelConfig& config, Backend& backend,
                 const Progress& progress, const std::atomic<bool>* cancel)
    : impl_(std::make_unique<Impl>(std::move(file), config, backend)) {
    Impl& m = *impl_;
    const ModelConfig& c = m.config;
    Loader loader(*m.file, backend, progress, cancel);
    const auto weight = [&](std::initializer_list<WeightPart> parts) {
        return loader.weight(std::span(parts.begin(), parts.size()), m.weights);
    };
    const auto vector = [&](std::initializer_list<Loader::VectorPart> parts) {
        return loader.vector(parts, m.constants);
    };

    m.embedding = weight({loader.part("token_embd.weight", c.vocab, c.hidden)});
    for (int i = 0; i < c.layers; ++i) {
        const std::string at = "blk." + std::to_string(i) + ".";
        Layer layer;
        layer.attention_norm = vector({{at + "attn_norm.weight", c.hidden}});
        layer.qkv = weight({loader.part(at + "attn_q.weight", m.query_rows(), c.hidden),
                            loader.part(at + "attn_k.weight", m.key_rows(), c.hidden),
                            loader.part(at + "attn_v.weight", m.value_rows(), c.hidden)});
        layer.qkv_bias = vector({{at + "attn_q.bias", m.query_rows(), true},
                                 {at + "attn_k.bias", m.key_rows(), true},
                                 {at + "attn_v.bias", m.value_rows(), true}});
        layer.attention_out =
            weight({loader.part(at + "attn_output.weight", c.hidden, m.attention_columns())});
        layer.attention_out_bias = vector({{at + "attn_output.bias", c.hidden, true}});
        layer.feed_forward_norm = vector({{at + "ffn_norm.weight", c.hidden}});
        layer.gate_up = weight({loader.part(at + "ffn_gate.weight", c.feed_forward, c.hidden),
                                loader.part(at + "ffn_up.weight", c.feed_forward, c.hidden)});
        layer.gate_up_bias = vector(
            {{at + "ffn_gate.bias", c.feed_forward, true}, {at + "ffn_up.bias", c.feed_forward, true}});
        layer.down = weight({loader.part(at + "ffn_down.weight", c.hidden, c.feed_forward)});
        layer.down_bias = vector({{at + "ffn_down.bias", c.hidden, true}});
        m.layers.push_back(layer);
    }
    m.output_norm = vector({{"output_norm.weight", c.hidden}});
    // Without a matrix of its own, the embedding serves as the output (Press & Wolf 2017).
    m.output =
        loader.has("output.weight") ? weight({loader.part("output.weight", c.vocab, c.hidden)}) : m.embedding;
    loader.check_nothing_left();

    for (const Weight each : m.weights)
        if (each.id != m.embedding.id)
            m.bytes_per_pass += backend.weight_bytes(each);
    if (m.output.id == m.embedding.id)
        m.bytes_per_pass += backend.weight_bytes(m.embedding);
}

Decoder::~Decoder() = default;

void Decoder::reserve(int max_rows, int max_outputs, int max_positions) {
    Impl& m = *impl_;
    const ModelConfig& c = m.config;
    Scratch& s = m.scratch;
    if (max_rows <= s.max_rows && max_outputs <= s.max_outputs && max_positions <= s.max_positions)
        return;
    m.backend.synchronize();
    const auto floats = [&](int64_t count, int64_t width) {
        return m.backend.allocate(static_cast<size_t>(count) * static_cast<size_t>(width) * sizeof(float));
    };
    // The new next to the old, so that there is something to go on with where there is no room for the new.
    Scratch larger = s;
    try {
        if (max_rows > s.max_rows) {
            larger.max_rows = max_rows;
            larger.x = floats(max_rows, c.hidden);
            larger.qkv = floats(max_rows, m.query_rows() + m.key_rows() + m.value_rows());
            larger.attention = floats(max_rows, m.attention_columns());
            larger.gate_up = floats(max_rows, int64_t{2} * c.feed_forward);
        }
        if (max_outputs > s.max_outputs) {
            larger.max_outputs = max_outputs;
            larger.outputs = floats(max_outputs, c.hidden);
            larger.logits = floats(max_outputs, c.vocab);
        }
        if (max_positions > s.max_positions) {
            larger.max_positions = max_positions;
            if (c.rope.dimensions > 0) {
                const std::vector<float> table = rope_table(c.rope, max_positions);
                larger.rope = floats(max_positions, c.rope.dimensions);
                m.backend.upload(larger.rope, 0, std::as_bytes(std::span<const float>(table)));
            }
        }
    } catch (...) {
        m.release_all_but(s, larger);
        throw;
    }
    m.release_all_but(larger, std::exchange(s, larger));
}

void Decoder::forward(const kernels::ForwardBatch& batch, kernels::KvCache cache) {
    Impl& m = *impl_;
    const ModelConfig& c = m.config;
    const Scratch& s = m.scratch;
    const int rows = static_cast<int>(batch.ids.size());
    if (rows > s.max_rows || static_cast<int>(batch.output_rows.size()) > s.max_outputs)
        m.fail("a pass of " + std::to_string(rows) + " rows and " + std::to_string(batch.output_rows.size()) +
               " outputs was asked for; memory is set up for " + std::to_string(s.max_rows) + " and " +
               std::to_string(s.max_outputs) + ".");
    for (const int32_t id : batch.ids)
        if (id < 0 || id >= c.vocab)
            m.fail("the token " + std::to_string(id) + " is not in the vocabulary of " +
                   std::to_string(c.vocab) + ".");
    for (const int32_t position : batch.positions)
        if (position < 0 || position >= s.max_positions)
            m.fail("a token at position " + std::to_string(position) +
                   " was asked for; memory is set up for " + std::to_string(s.max_positions) + " positions.");
    m.output_rows = static_cast<int>(batch.output_rows.size());

    Backend& device = m.backend;
    const View x = kernels::matrix(s.x, rows, c.hidden);
    const View qkv = kernels::matrix(s.qkv, rows, m.query_rows() + m.key_rows() + m.value_rows());
    const View q = qkv.slice(0, m.query_rows());
    const View k = qkv.slice(m.query_rows(), m.key_rows());
    const View v = qkv.slice(m.query_rows() + m.key_rows(), m.value_rows());
    const View attention = kernels::matrix(s.attention, rows, m.attention_columns());
    const View gate_up = kernels::matrix(s.gate_up, rows, int64_t{2} * c.feed_forward);
    const auto rms_norm = [&](Buffer weight) {
        return Norm{.kind = NormKind::rms, .weight = weight, .eps = c.norm_eps};
    };
    device.begin(batch);
    device.embed({.table = m.embedding, .out = x});
    for (int i = 0; i < c.layers; ++i) {
        const Layer& layer = m.layers[static_cast<size_t>(i)];
        device.linear({.x = x,
                       .weight = layer.qkv,
                       .out = qkv,
                       .norm = rms_norm(layer.attention_norm),
                       .bias = layer.qkv_bias});
        device.rope_store(
            {.q = q,
             .k = k,
             .v = v,
             .cache = cache,
             .layer = i,
             .heads = c.heads,
             .rope = {.table = s.rope, .dimensions = c.rope.dimensions, .style = c.rope.style}});
        device.attention({.q = q,
                          .out = attention,
                          .cache = cache,
                          .layer = i,
                          .heads = c.heads,
                          .scale = 1.0f / std::sqrt(static_cast<float>(c.key_length))});
        device.linear({.x = attention,
                       .weight = layer.attention_out,
                       .out = x,
                       .bias = layer.attention_out_bias,
                       .accumulate = true});
        device.linear({.x = x,
                       .weight = layer.gate_up,
                       .out = gate_up,
                       .norm = rms_norm(layer.feed_forward_norm),
                       .bias = layer.gate_up_bias});
        device.linear({.x = gate_up,
                       .weight = layer.down,
                       .out = x,
                       .activation = {.kind = kernels::ActivationKind::silu, .gated = true},
                       .bias = layer.down_bias,
                       .accumulate = true});
    }
    if (m.output_rows == 0)
        return;
    const View outputs = kernels::matrix(s.outputs, m.output_rows, c.hidden);
    device.gather({.x = x, .out = outputs});
    device.linear({.x = outputs,
                   .weight = m.output,
                   .out = kernels::matrix(s.logits, m.output_rows, c.vocab),
                   .norm = rms_norm(m.output_norm)});
}

void Decoder::read_logits(std::span<float> logits) {
    Impl& m = *impl_;
    if (logits.size() != static_cast<size_t>(m.output_rows) * static_cast<size_t>(m.config.vocab))
        m.fail(grouped(logits.size()) + " logits were asked for; the last pass made " +
               std::to_string(m.output_rows) + " rows of " + std::to_string(m.config.vocab) + ".");
    if (logits.empty())
        m.backend.synchronize();
    else
        m.backend.download(m.scratch.logits, 0, std::as_writable_bytes(logits));
}

const ModelConfig& Decoder::config() const {
    return impl_->config;
}

size_t Decoder::weight_bytes() const {
    return impl_->bytes_per_pass;
}

} // namespace orrery
