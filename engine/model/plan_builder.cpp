#include "engine/model/plan_builder.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace orrery {

using kernels::Activation;
using kernels::ActivationKind;
using kernels::Buffer;
using kernels::LinearOp;
using kernels::Norm;
using kernels::NormKind;
using kernels::View;
using kernels::Weight;
using kernels::WeightPart;

namespace {

constexpr int64_t max_expert_rows = 1 << 24;

class Builder {
public:
    Builder(const ModelConfig& config, WeightLoader& loader)
        : config_(config), traits_(*config.traits), names_(config.traits->tensors), loader_(loader) {}

    ForwardPlan build() {
        residual_ = slot(Slot::residual, config_.hidden);
        const Weight embedding = load({loader_.part("token_embd.weight", config_.vocab, config_.hidden)});
        kernels::EmbedOp embed = {.table = embedding, .out = residual_, .scale = config_.embedding_scale};
        if (traits_.positions == Positions::learned)
            embed.positions =
                load({loader_.part("position_embd.weight", config_.max_positions, config_.hidden)});
        plan_.layers.emplace_back(embed);
        for (size_t i = 0; i < config_.layers.size(); ++i)
            add_layer(i);
        add_outputs(embedding);
        loader_.check_nothing_left();
        return std::move(plan_);
    }

private:
    // ------------------------------------------------------------ parts of every layer

    /// Scratch of `columns` elements for each of `per_row` rows that belong to a row of the pass.
    View slot(Slot which, int64_t columns, int64_t per_row = 1) {
        size_t& bytes = plan_.row_bytes[static_cast<size_t>(which)];
        bytes = std::max(bytes, static_cast<size_t>(columns * per_row) * sizeof(float));
        return kernels::matrix({static_cast<uint32_t>(which)}, per_row, columns);
    }

    std::string name(std::string_view tensor, const char* kind = ".weight") const {
        return at_ + std::string(tensor) + kind;
    }

    Weight load(const std::vector<WeightPart>& parts) { return loader_.weight(parts); }

    /// A matrix [rows, columns] that every row of a pass is multiplied by.
    Weight load_matrix(std::vector<WeightUse>& uses, const std::vector<WeightPart>& parts) {
        const Weight weight = load(parts);
        WeightUse use = {.bytes = loader_.bytes(weight)};
        for (const WeightPart& part : parts)
            use.elements += part.rows * part.columns;
        uses.push_back(use);
        return weight;
    }
    Weight load_matrix(const std::vector<WeightPart>& parts) {
        return load_matrix(plan_.layer_weights, parts);
    }

    Buffer vector(const std::vector<WeightLoader::VectorPart>& parts) { return loader_.vector(parts); }
    Buffer bias(std::string_view tensor, int64_t size) {
        return vector({{name(tensor, ".bias"), size, true}});
    }

    Norm norm(const std::string& tensor, int64_t size) {
        return {.kind = traits_.norm,
                .weight = vector({{tensor + ".weight", size}}),
                .bias = vector({{tensor + ".bias", size, true}}),
                .eps = config_.norm_eps};
    }

    Norm pre_norm(std::string_view tensor) {
        return traits_.norm_place == NormPlace::after ? Norm{}
                                                      : norm(at_ + std::string(tensor), config_.hidden);
    }
    Norm post_norm(std::string_view tensor) {
        return traits_.norm_place == NormPlace::before ? Norm{}
                                                       : norm(at_ + std::string(tensor), config_.hidden);
    }

    template <typename Op>
    void add(const Op& op) {
        plan_.layers.emplace_back(op);
    }

    /// What adds to the residual stream: straight, or, where there is a norm after it, by way of scratch.
    struct Sum {
        View out;
        float scale;
        bool accumulate;
    };
    Sum begin_sum(const Norm& post) {
        if (post.kind == NormKind::none)
            return {residual_, config_.residual_scale, true};
        return {slot(Slot::added, config_.hidden), 1.0f, false};
    }
    void end_sum(const Sum& sum, const Norm& post) {
        if (post.kind != NormKind::none)
            add(kernels::NormOp{.x = sum.out,
                                .out = residual_,
                                .norm = post,
                                .scale = config_.residual_scale,
                                .accumulate = true});
    }

    // ------------------------------------------------------------ a layer

    void add_layer(size_t index) {
        const LayerConfig& layer = config_.layers[index];
        at_ = "blk." + std::to_string(index) + ".";
        const Norm attention_norm = pre_norm(names_.attention_norm);
        add_attention(layer, attention_norm);
        // Side by side: feed-forward reads the stream before attention adds to it.
        const bool shares_norm = config_.parallel_residual && !loader_.has(name(names_.feed_forward_norm));
        const auto begin_feed_forward = [&] {
            const Norm its_norm = shares_norm ? attention_norm : pre_norm(names_.feed_forward_norm);
            if (config_.experts.count > 0 && loader_.has(name(names_.router)))
                begin_experts(its_norm);
            else
                begin_dense(layer, its_norm);
        };
        if (config_.parallel_residual)
            begin_feed_forward();
        add_attention_out(layer);
        if (!config_.parallel_residual)
            begin_feed_forward();
        end_feed_forward();
    }

    void add_attention(const LayerConfig& layer, const Norm& input_norm) {
        const int64_t q_columns = int64_t{layer.heads} * layer.key_length,
                      k_columns = int64_t{layer.kv_heads} * layer.key_length,
                      v_columns = int64_t{layer.kv_heads} * layer.value_length;
        const int64_t columns = q_columns + k_columns + v_columns;
        const View qkv = slot(Slot::qkv, columns);
        const View q = qkv.slice(0, q_columns), k = qkv.slice(q_columns, k_columns),
                   v = qkv.slice(q_columns + k_columns, v_columns);
        LinearOp projection = {.x = residual_, .weight = {}, .out = qkv, .norm = input_norm};
        if (loader_.has(name(names_.qkv))) {
            projection.weight = load_matrix({loader_.part(name(names_.qkv), columns, config_.hidden)});
            projection.bias = bias(names_.qkv, columns);
        } else {
            projection.weight = load_matrix({loader_.part(name(names_.q), q_columns, config_.hidden),
                                             loader_.part(name(names_.k), k_columns, config_.hidden),
                                             loader_.part(name(names_.v), v_columns, config_.hidden)});
            projection.bias = vector({{name(names_.q, ".bias"), q_columns, true},
                                      {name(names_.k, ".bias"), k_columns, true},
                                      {name(names_.v, ".bias"), v_columns, true}});
        }
        add(projection);

        kernels::RopeStoreOp store = {
            .q = q, .k = k, .v = v, .cache = {static_cast<uint32_t>(layer.cache) + 1}};
        store.layer = layer.cache_layer;
        store.heads = layer.heads;
        if (traits_.head_norm == HeadNorm::row) {
            for (const auto& [part, tensor] : {std::pair(q, names_.q_norm), std::pair(k, names_.k_norm)})
                add(kernels::NormOp{
                    .x = part, .out = part, .norm = norm(at_ + std::string(tensor), part.columns)});
        } else if (traits_.head_norm == HeadNorm::head) {
            store.q_norm = norm(at_ + std::string(names_.q_norm), layer.key_length);
            store.k_norm = norm(at_ + std::string(names_.k_norm), layer.key_length);
            store.norm_after_rope = traits_.head_norm_after_rope;
        }
        if (layer.rope >= 0)
            store.rope = {.table = {static_cast<uint32_t>(layer.rope) + 1},
                          .dimensions = config_.ropes[static_cast<size_t>(layer.rope)].dimensions,
                          .style = traits_.rope_style};
        add(store);
        add(kernels::AttentionOp{.q = q,
                                 .out = slot(Slot::attended, int64_t{layer.heads} * layer.value_length),
                                 .cache = store.cache,
                                 .layer = layer.cache_layer,
                                 .heads = layer.heads,
                                 .scale = layer.attention_scale,
                                 .soft_cap = config_.attention_soft_cap,
                                 .window = layer.window});
    }

    void add_attention_out(const LayerConfig& layer) {
        const int64_t columns = int64_t{layer.heads} * layer.value_length;
        const Weight weight =
            load_matrix({loader_.part(name(names_.attention_out), config_.hidden, columns)});
        const Buffer its_bias = bias(names_.attention_out, config_.hidden);
        const Norm post = post_norm(names_.attention_post_norm);
        const Sum sum = begin_sum(post);
        add(LinearOp{.x = slot(Slot::attended, columns),
                     .weight = weight,
                     .out = sum.out,
                     .bias = its_bias,
                     .scale = sum.scale,
                     .accumulate = sum.accumulate});
        end_sum(sum, post);
    }

    Activation activation() const { return {.kind = traits_.activation, .gated = traits_.gated}; }
    int64_t width(int64_t feed_forward) const { return traits_.gated ? 2 * feed_forward : feed_forward; }

    /// The first projection, [gate | up] where it is gated, whose parts may lie in one tensor or in two.
    LinearOp first_projection(const View& x, Slot out, std::string_view gate, std::string_view up,
                              int64_t feed_forward) {
        LinearOp op = {.x = x, .weight = {}, .out = slot(out, width(feed_forward))};
        if (traits_.gated && loader_.has(name(gate))) {
            op.weight = load_matrix({loader_.part(name(gate), feed_forward, config_.hidden),
                                     loader_.part(name(up), feed_forward, config_.hidden)});
            op.bias =
                vector({{name(gate, ".bias"), feed_forward, true}, {name(up, ".bias"), feed_forward, true}});
        } else {
            op.weight = load_matrix({loader_.part(name(up), width(feed_forward), config_.hidden)});
            op.bias = bias(up, width(feed_forward));
        }
        return op;
    }

    void begin_dense(const LayerConfig& layer, const Norm& input_norm) {
        LinearOp op =
            first_projection(residual_, Slot::feed_forward, names_.gate, names_.up, layer.feed_forward);
        op.norm = input_norm;
        add(op);
        end_feed_forward_ = [this, feed_forward = int64_t{layer.feed_forward},
                             hidden = op.out](const Sum& sum) {
            add(LinearOp{.x = hidden,
                         .weight =
                             load_matrix({loader_.part(name(names_.down), config_.hidden, feed_forward)}),
                         .out = sum.out,
                         .activation = activation(),
                         .bias = bias(names_.down, config_.hidden),
                         .scale = sum.scale,
                         .accumulate = sum.accumulate});
        };
    }

    void begin_experts(const Norm& input_norm) {
        const ExpertConfig& experts = config_.experts;
        const View normed = slot(Slot::normed, config_.hidden);
        add(kernels::NormOp{.x = residual_, .out = normed, .norm = input_norm});
        const View router = slot(Slot::router, experts.count);
        add(LinearOp{.x = normed,
                     .weight =
                         load_matrix({loader_.part(name(names_.router), experts.count, config_.hidden)}),
                     .out = router});
        const Buffer chosen = slot(Slot::experts, experts.used).buffer,
                     weights = slot(Slot::expert_weights, experts.used).buffer;
        add(kernels::RouteOp{.logits = router,
                             .experts = chosen,
                             .weights = weights,
                             .top_k = experts.used,
                             .score = experts.score,
                             .normalize = experts.normalize,
                             .scale = experts.scale});

        const int64_t feed_forward = loader_.rows_of(name(names_.experts_up), max_expert_rows);
        const View hidden = slot(Slot::expert_hidden, width(feed_forward), experts.used);
        add(kernels::ExpertLinearOp{.x = normed,
                                    .weight = load_first_of_experts(feed_forward),
                                    .out = hidden,
                                    .experts = experts.count,
                                    .top_k = experts.used,
                                    .experts_of = chosen});
        const View out = slot(Slot::expert_out, config_.hidden, experts.used);
        add(kernels::ExpertLinearOp{.x = hidden,
                                    .weight =
                                        load_experts(loader_.parts(name(names_.experts_down), experts.count,
                                                                   config_.hidden, feed_forward)),
                                    .out = out,
                                    .experts = experts.count,
                                    .top_k = experts.used,
                                    .experts_of = chosen,
                                    .per_slot = true,
                                    .activation = activation()});
        const bool shared = loader_.has(name(names_.shared_expert_up));
        const View shared_out = shared ? add_shared_expert(normed) : View{};
        end_feed_forward_ = [this, out, weights, shared_out](const Sum& sum) {
            add(kernels::CombineExpertsOp{.x = out,
                                          .out = sum.out,
                                          .weights = weights,
                                          .top_k = config_.experts.used,
                                          .scale = sum.scale,
                                          .accumulate = sum.accumulate});
            if (shared_out)
                add(kernels::AddOp{.x = shared_out, .out = sum.out, .scale = sum.scale});
        };
    }

    /// Gate and up of each expert, one under the other.
    Weight load_first_of_experts(int64_t feed_forward) {
        const int count = config_.experts.count;
        const auto up = loader_.parts(name(names_.experts_up), count, feed_forward, config_.hidden);
        if (!traits_.gated)
            return load_experts(up);
        const auto gate = loader_.parts(name(names_.experts_gate), count, feed_forward, config_.hidden);
        std::vector<WeightPart> both;
        for (size_t i = 0; i < up.size(); ++i)
            both.insert(both.end(), {gate[i], up[i]});
        return load_experts(both);
    }

    Weight load_experts(const std::vector<WeightPart>& parts) {
        const Weight weight = load_matrix(parts);
        plan_.layer_weights.back().experts = config_.experts.count;
        plan_.layer_weights.back().used = config_.experts.used;
        return weight;
    }

    /// An expert that every row uses, by a gate of its own where the file has one.
    View add_shared_expert(const View& normed) {
        const int64_t feed_forward = loader_.rows_of(name(names_.shared_expert_up), max_expert_rows);
        const LinearOp first = first_projection(normed, Slot::feed_forward, names_.shared_expert_gate,
                                                names_.shared_expert_up, feed_forward);
        add(first);
        const View out = slot(Slot::shared_expert, config_.hidden);
        add(LinearOp{.x = first.out,
                     .weight = load_matrix(
                         {loader_.part(name(names_.shared_expert_down), config_.hidden, feed_forward)}),
                     .out = out,
                     .activation = activation()});
        if (loader_.has(name(names_.shared_expert_router))) {
            const View gate = slot(Slot::shared_expert_gate, 1);
            add(LinearOp{
                .x = normed,
                .weight = load_matrix({loader_.part(name(names_.shared_expert_router), 1, config_.hidden)}),
                .out = gate});
            add(kernels::GateOp{
                .gate = gate, .x = out, .out = out, .activation = {.kind = ActivationKind::sigmoid}});
        }
        return out;
    }

    void end_feed_forward() {
        const Norm post = post_norm(names_.feed_forward_post_norm);
        const Sum sum = begin_sum(post);
        end_feed_forward_(sum);
        end_sum(sum, post);
    }

    // ------------------------------------------------------------ after the layers

    void add_outputs(Weight embedding) {
        const Norm output_norm = norm("output_norm", config_.hidden);
        plan_.residual = residual_;
        plan_.output_residual = slot(Slot::output_residual, config_.hidden);
        const View logits = slot(Slot::logits, config_.vocab);
        // Without a matrix of its own, the embedding serves as the output (Press & Wolf 2017).
        Weight output = embedding;
        if (loader_.has("output.weight"))
            output = load_matrix(plan_.output_weights,
                                 {loader_.part("output.weight", config_.vocab, config_.hidden)});
        else
            plan_.output_weights.push_back(
                {int64_t{config_.vocab} * config_.hidden, loader_.bytes(embedding)});
        plan_.outputs.emplace_back(LinearOp{.x = plan_.output_residual,
                                            .weight = output,
                                            .out = logits,
                                            .norm = output_norm,
                                            .bias = vector({{"output.bias", config_.vocab, true}}),
                                            .scale = config_.logit_scale});
        if (config_.logit_soft_cap > 0)
            plan_.outputs.emplace_back(kernels::SoftCapOp{.x = logits, .cap = config_.logit_soft_cap});
    }

    const ModelConfig& config_;
    const Architecture& traits_;
    const TensorNames& names_;
    WeightLoader& loader_;
    ForwardPlan plan_;
    std::string at_; ///< before the names of the layer's tensors
    View residual_;
    std::function<void(const Sum&)> end_feed_forward_; ///< the last product of what has been begun
};

} // namespace

ForwardPlan build_plan(const ModelConfig& config, WeightLoader& loader) {
    return Builder(config, loader).build();
}

} // namespace orrery
