#include "engine/model/decoder.h"

#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace orrery {

using kernels::Backend;
using kernels::Buffer;
using kernels::KvCache;
using kernels::View;

namespace {

/// Carries out operations of a plan: fills in what belongs to this decoder and this pass.
struct Pass {
    Backend& device;
    std::span<const Buffer> scratch;    ///< of each slot
    std::span<const KvCache> caches;    ///< of ModelConfig::caches
    const std::deque<RopeTable>& ropes; ///< of ModelConfig::ropes
    int64_t rows = 0;

    Buffer of_slot(Buffer buffer) const { return scratch[buffer.id]; }
    View filled(View view) const {
        if (view) {
            view.buffer = of_slot(view.buffer);
            view.rows *= rows;
        }
        return view;
    }
    KvCache filled(KvCache cache) const { return caches[cache.id - 1]; }

    void operator()(kernels::EmbedOp op) const {
        op.out = filled(op.out);
        device.embed(op);
    }
    void operator()(kernels::NormOp op) const {
        op.x = filled(op.x);
        op.out = filled(op.out);
        op.add = filled(op.add);
        op.gate = filled(op.gate);
        device.norm(op);
    }
    void operator()(kernels::LinearOp op) const {
        op.x = filled(op.x);
        op.out = filled(op.out);
        device.linear(op);
    }
    void operator()(kernels::GateOp op) const {
        op.gate = filled(op.gate);
        op.x = filled(op.x);
        op.out = filled(op.out);
        device.gate(op);
    }
    void operator()(kernels::AddOp op) const {
        op.x = filled(op.x);
        op.out = filled(op.out);
        device.add(op);
    }
    void operator()(kernels::SoftCapOp op) const {
        op.x = filled(op.x);
        device.soft_cap(op);
    }
    void operator()(kernels::RopeStoreOp op) const {
        op.q = filled(op.q);
        op.k = filled(op.k);
        op.v = filled(op.v);
        op.cache = filled(op.cache);
        if (op.rope.table)
            op.rope.table = ropes[op.rope.table.id - 1].buffer();
        device.rope_store(op);
    }
    void operator()(kernels::AttentionOp op) const {
        op.q = filled(op.q);
        op.out = filled(op.out);
        op.cache = filled(op.cache);
        device.attention(op);
    }
    void operator()(kernels::RouteOp op) const {
        op.logits = filled(op.logits);
        op.experts = of_slot(op.experts);
        op.weights = of_slot(op.weights);
        device.route(op);
    }
    void operator()(kernels::ExpertLinearOp op) const {
        op.x = filled(op.x);
        op.out = filled(op.out);
        op.experts_of = of_slot(op.experts_of);
        device.expert_linear(op);
    }
    void operator()(kernels::CombineExpertsOp op) const {
        op.x = filled(op.x);
        op.out = filled(op.out);
        op.weights = of_slot(op.weights);
        device.combine_experts(op);
    }
};

} // namespace

Decoder::Decoder(std::shared_ptr<const ModelWeights> weights, Backend& backend)
    : weights_(std::move(weights)), backend_(backend) {
    for (const RopeConfig& rope : config().ropes)
        ropes_.emplace_back(rope, backend_);
}

Decoder::~Decoder() {
    release_all_but({}, scratch_);
}

void Decoder::fail(const std::string& sentence) const {
    throw Error(platform::to_utf8(weights_->file().path()) + ": " + sentence);
}

/// Releases those buffers of `old` that are not in `kept` as well.
void Decoder::release_all_but(const Scratch& kept, const Scratch& old) {
    for (size_t i = 0; i < slot_count; ++i)
        if (old.buffers[i] && old.buffers[i].id != kept.buffers[i].id)
            backend_.release(old.buffers[i]);
}

void Decoder::reserve(int max_rows, int max_outputs, int max_positions) {
    if (config().max_positions > 0 && max_positions > config().max_positions)
        fail("a context of " + grouped(static_cast<uint64_t>(max_positions)) +
             " tokens was asked for; the model has learned embeddings of " +
             grouped(static_cast<uint64_t>(config().max_positions)) + " positions.");
    if (max_rows > scratch_.max_rows || max_outputs > scratch_.max_outputs) {
        backend_.synchronize();
        // The new next to the old, so that there is something to go on with where there is no room for the
        // new.
        Scratch larger = scratch_;
        larger.max_rows = std::max(max_rows, scratch_.max_rows);
        larger.max_outputs = std::max(max_outputs, scratch_.max_outputs);
        try {
            for (size_t i = 0; i < slot_count; ++i) {
                const bool of_outputs = is_of_outputs(static_cast<Slot>(i));
                const int rows = of_outputs ? larger.max_outputs : larger.max_rows;
                const size_t row_bytes = weights_->plan().row_bytes[i];
                if (row_bytes > 0 && rows > (of_outputs ? scratch_.max_outputs : scratch_.max_rows))
                    larger.buffers[i] = backend_.allocate(static_cast<size_t>(rows) * row_bytes);
            }
        } catch (...) {
            release_all_but(scratch_, larger);
            throw;
        }
        release_all_but(larger, std::exchange(scratch_, larger));
    }
    max_positions_ = std::max(max_positions, max_positions_);
}

void Decoder::check(const kernels::ForwardBatch& batch) const {
    const size_t rows = batch.ids.size(), outputs = batch.output_rows.size();
    if (rows > static_cast<size_t>(scratch_.max_rows) || outputs > static_cast<size_t>(scratch_.max_outputs))
        fail("a pass of " + std::to_string(rows) + " rows and " + std::to_string(outputs) +
             " outputs was asked for; memory is set up for " + std::to_string(scratch_.max_rows) + " and " +
             std::to_string(scratch_.max_outputs) + ".");
    for (const int32_t id : batch.ids)
        if (id < 0 || id >= config().vocab)
            fail("the token " + std::to_string(id) + " is not in the vocabulary of " +
                 std::to_string(config().vocab) + ".");
    for (const int32_t position : batch.positions)
        if (position < 0 || position >= max_positions_)
            fail("a token at position " + std::to_string(position) +
                 " was asked for; the context is set up for " + std::to_string(max_positions_) +
                 " positions.");
}

void Decoder::forward(const kernels::ForwardBatch& batch, std::span<const KvCache> caches) {
    check(batch);
    const int32_t last = batch.positions.empty() ? 0 : std::ranges::max(batch.positions);
    for (RopeTable& rope : ropes_)
        rope.cover(last + 1, max_positions_);
    output_rows_ = static_cast<int>(batch.output_rows.size());

    const ForwardPlan& plan = weights_->plan();
    Pass pass = {backend_, scratch_.buffers, caches, ropes_, static_cast<int64_t>(batch.ids.size())};
    backend_.begin(batch);
    for (const ForwardPlan::Step& step : plan.layers)
        std::visit(pass, step);
    if (output_rows_ == 0)
        return;
    const View residual = pass.filled(plan.residual);
    pass.rows = output_rows_;
    backend_.gather({.x = residual, .out = pass.filled(plan.output_residual)});
    for (const ForwardPlan::Step& step : plan.outputs)
        std::visit(pass, step);
}

void Decoder::read_logits(int first_row, std::span<float> logits) {
    const auto vocab = static_cast<size_t>(config().vocab);
    const size_t rows = logits.size() / vocab;
    if (first_row < 0 || first_row > output_rows_ || logits.size() != rows * vocab ||
        rows > static_cast<size_t>(output_rows_ - first_row))
        fail(grouped(logits.size()) + " logits from row " + std::to_string(first_row) +
             " on were asked for; the last pass made " + std::to_string(output_rows_) + " rows of " +
             std::to_string(vocab) + ".");
    if (logits.empty())
        backend_.synchronize();
    else
        backend_.download(scratch_.buffers[static_cast<size_t>(Slot::logits)],
                          static_cast<size_t>(first_row) * vocab * sizeof(float),
                          std::as_writable_bytes(logits));
}

View Decoder::logits() const {
    return kernels::matrix(scratch_.buffers[static_cast<size_t>(Slot::logits)], output_rows_, config().vocab);
}

} // namespace orrery
