#include "engine/model/config.h"
#include "engine/model/gguf.h"
#include "kernels/error.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <cmath>
#include <functional>
#include <limits>

using namespace orrery;
using test::GgufWriter;

namespace {

ModelConfig config_of(const GgufWriter& writer) {
    const auto bytes = writer.bytes();
    return read_config(*GgufFile::parse(bytes, "model.gguf"));
}

std::string error_of(const GgufWriter& writer) {
    try {
        config_of(writer);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

GgufWriter with(const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer = test::tiny_model_writer();
    change(writer);
    return writer;
}

} // namespace

class tst_config : public QObject {
    Q_OBJECT

private slots:
    // The converter's files say what Hugging Face's config.json says.
    void agrees_with_the_original_configuration() {
        ORRERY_NEED_TEST_DATA();
        for (const std::string name : {"llama", "llama3_rope"}) {
            const auto json = test::read_json(test::data_dir() / "golden" / name / "config.json");
            const ModelConfig config =
                read_config(*GgufFile::open(test::data_dir() / "golden_gguf" / (name + ".gguf")));
            QCOMPARE(config.architecture, std::string("llama"));
            QCOMPARE(config.name, name);
            QCOMPARE(config.layers.size(), json.at("num_hidden_layers").get<size_t>());
            QCOMPARE(config.hidden, json.at("hidden_size").get<int>());
            for (const LayerConfig& layer : config.layers) {
                QCOMPARE(layer.heads, json.at("num_attention_heads").get<int>());
                QCOMPARE(layer.kv_heads, json.at("num_key_value_heads").get<int>());
                QCOMPARE(layer.key_length, json.at("head_dim").get<int>());
                QCOMPARE(layer.value_length, json.at("head_dim").get<int>());
                QCOMPARE(layer.feed_forward, json.at("intermediate_size").get<int>());
                QCOMPARE(layer.window, 0);
                QCOMPARE(layer.rope, 0);
                QCOMPARE(layer.cache, 0);
            }
            QCOMPARE(config.ropes.size(), size_t(1));
            QCOMPARE(config.caches.size(), size_t(1));
            QCOMPARE(config.vocab, json.at("vocab_size").get<int>());
            QCOMPARE(config.context_length, json.at("max_position_embeddings").get<int>());
            QCOMPARE(config.norm_eps, json.at("rms_norm_eps").get<float>());
            QCOMPARE(config.ropes[0].base, json.at("rope_parameters").at("rope_theta").get<double>());
            QCOMPARE(config.ropes[0].dimensions, json.at("head_dim").get<int>());
            QCOMPARE(config.ropes[0].linear_factor, 1.0);
        }
    }

    // Llama 3's scaling: frequencies whose wavelength is short stay, long ones are divided by the factor,
    // those between go over from one to the other (the formula of Hugging Face's modeling_rope_utils).
    void llama3_factors_follow_the_formula() {
        ORRERY_NEED_TEST_DATA();
        const auto rope =
            test::read_json(test::data_dir() / "golden/llama3_rope/config.json").at("rope_parameters");
        const ModelConfig config =
            read_config(*GgufFile::open(test::data_dir() / "golden_gguf/llama3_rope.gguf"));
        const double factor = rope.at("factor"), low = rope.at("low_freq_factor"),
                     high = rope.at("high_freq_factor"),
                     original = rope.at("original_max_position_embeddings"), base = rope.at("rope_theta");
        const RopeConfig& actual = config.ropes.at(0);
        QCOMPARE(actual.frequency_factors.size(), size_t(actual.dimensions / 2));
        int changed = 0;
        for (int i = 0; i < actual.dimensions / 2; ++i) {
            const double wavelength = 2 * M_PI * std::pow(base, 2.0 * i / actual.dimensions);
            double expected = 1;
            if (wavelength > original / low) {
                expected = factor;
            } else if (wavelength > original / high) {
                const double smooth = (original / wavelength - low) / (high - low);
                expected = 1 / ((1 - smooth) / factor + smooth);
            }
            changed += expected != 1;
            QVERIFY(std::abs(actual.frequency_factors[size_t(i)] / expected - 1) < 1e-5);
        }
        QVERIFY(changed > 0);
    }

    void vocabulary_files_have_a_configuration_too() {
        ORRERY_NEED_TEST_DATA();
        const ModelConfig config =
            read_config(*GgufFile::open(test::data_dir() / "gguf_vocab/ggml-vocab-llama-spm.gguf"));
        QCOMPARE(config.vocab, 32000);
        QCOMPARE(config.layers.at(0).key_length, 128); // 4096 / 32, from no field
    }

    void what_is_missing_has_its_usual_value() {
        const ModelConfig config = config_of(with([](GgufWriter& f) {
            f.drop("llama.attention.key_length").drop("llama.attention.value_length");
            f.drop("llama.rope.dimension_count").drop("llama.rope.freq_base").drop("llama.vocab_size");
            f.drop("llama.attention.head_count_kv").drop("general.name");
        }));
        QCOMPARE(config.name, std::string("model"));
        QCOMPARE(config.layers.at(0).key_length, 16);
        QCOMPARE(config.layers.at(0).value_length, 16);
        QCOMPARE(config.layers.at(0).kv_heads, 4);
        QCOMPARE(config.ropes.at(0).dimensions, 16);
        QCOMPARE(config.ropes.at(0).base, 10000.0);
        QCOMPARE(config.vocab, 273);
    }

    void a_number_may_be_one_for_each_layer() {
        const ModelConfig config = config_of(with([](GgufWriter& f) {
            f.drop("llama.feed_forward_length").u32s("llama.feed_forward_length", {96, 80});
            f.drop("llama.attention.head_count_kv").i32s("llama.attention.head_count_kv", {2, 4});
        }));
        QCOMPARE(config.layers.at(0).feed_forward, 96);
        QCOMPARE(config.layers.at(1).feed_forward, 80);
        QCOMPARE(config.layers.at(0).kv_heads, 2);
        QCOMPARE(config.layers.at(1).kv_heads, 4);
        // Keys and values of two shapes: each has a cache of its own.
        QCOMPARE(config.caches.size(), size_t(2));
        QCOMPARE(config.layers.at(1).cache, 1);
        QCOMPARE(config.layers.at(1).cache_layer, 0);
        QCOMPARE(config.caches.at(1).kv_heads, 4);
        QCOMPARE(config.caches.at(1).layers, 1);
    }

    void layers_of_one_shape_share_a_cache() {
        const ModelConfig config = config_of(with([](GgufWriter& f) {
            f.drop("llama.block_count").u32("llama.block_count", 5);
            f.u32("llama.attention.sliding_window", 16);
            f.booleans("llama.attention.sliding_window_pattern", {true, false, true, true, false});
            f.u32("llama.attention.key_length_swa", 8).u32("llama.attention.value_length_swa", 8);
            f.u32("llama.rope.dimension_count_swa", 8).f32("llama.rope.freq_base_swa", 500);
        }));
        std::vector<std::vector<int>> layers;
        for (const LayerConfig& layer : config.layers)
            layers.push_back({layer.window, layer.key_length, layer.rope, layer.cache, layer.cache_layer});
        QCOMPARE(
            layers,
            (std::vector<std::vector<int>>{
                {16, 8, 0, 0, 0}, {0, 16, 1, 1, 0}, {16, 8, 0, 0, 1}, {16, 8, 0, 0, 2}, {0, 16, 1, 1, 1}}));
        QCOMPARE(config.caches.at(0).layers, 3);
        QCOMPARE(config.caches.at(1).layers, 2);
        QCOMPARE(config.ropes.at(0).base, 500.0);
        QCOMPARE(config.ropes.at(0).dimensions, 8);
        QCOMPARE(config.ropes.at(1).base, 10000.0);
    }

    void linear_scaling_is_read_in_all_its_spellings() {
        const auto factor = [](const std::function<void(GgufWriter&)>& change) {
            return config_of(with(change)).ropes.at(0).linear_factor;
        };
        QCOMPARE(factor([](auto& f) {
                     f.string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4);
                 }),
                 4.0);
        QCOMPARE(factor([](auto& f) { f.f32("llama.rope.scaling.factor", 4); }), 4.0);
        QCOMPARE(factor([](auto& f) { f.f32("llama.rope.scale_linear", 2.5f); }), 2.5);
        QCOMPARE(factor([](auto& f) { f.f32("llama.rope.scaling.factor", 0); }), 1.0);
        QCOMPARE(factor([](auto& f) {
                     f.string("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4);
                 }),
                 1.0);
        QCOMPARE(factor([](auto&) {}), 1.0);
    }

    void says_what_is_wrong_data() {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QVariant>("value"); // none: the field is dropped
        QTest::addColumn<QString>("sentence");
        const auto row = [](const char* key, const QVariant& value, const char* sentence) {
            QTest::addRow("%s = %s", key, qPrintable(value.toString()))
                << QString(key) << value << QString(sentence);
        };
        row("general.architecture", {}, "'general.architecture' is missing");
        row("general.architecture", "gemma9",
            "'general.architecture' is 'gemma9'; this program runs llama, qwen2");
        for (const char* field : {"block_count", "embedding_length", "context_length", "feed_forward_length",
                                  "attention.head_count", "attention.layer_norm_rms_epsilon"})
            row(("llama." + std::string(field)).c_str(), {}, "' is missing");
        for (const char* field : {"block_count", "embedding_length", "context_length", "feed_forward_length",
                                  "attention.head_count", "attention.head_count_kv", "attention.key_length",
                                  "attention.value_length", "vocab_size"})
            for (const uint value : {0u, UINT32_MAX})
                row(("llama." + std::string(field)).c_str(), value, "; it has to be from 1 to");
        row("llama.block_count", "two", "is a text where an integer is needed");
        row("llama.attention.head_count_kv", 3u, "4 query heads and 3 key/value heads");
        row("llama.attention.head_count_kv", 8u, "4 query heads and 8 key/value heads");
        row("llama.rope.dimension_count", 17u, "from 0 to 16");
        row("llama.rope.dimension_count", 15u, "has to be even");
        for (const float value :
             {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
            row("llama.rope.freq_base", value, "has to be a positive number");
            row("llama.attention.layer_norm_rms_epsilon", value, "has to be a positive number");
        }
        row("llama.rope.scaling.factor", -2.0f, "has to be a positive number");
        for (const char* type : {"yarn", "longrope", "dynamic"})
            row("llama.rope.scaling.type", type, "this program runs 'none' and 'linear'");
        row("llama.vocab_size", 272u,
            "'llama.vocab_size' is 272, but the tensor 'token_embd.weight' has 273 rows");
        row("llama.embedding_length", 128u,
            "'token_embd.weight' has the shape [273, 64]; [vocabulary, 128] is needed");
        row("llama.expert_count", 8u, "'llama.expert_used_count' is missing");
        row("llama.expert_count", 1u << 20, "from 0 to 65536");
        row("llama.expert_group_count", 4u,
            "'llama.expert_group_count' is 4; this program runs experts in a single");
        row("llama.attention.sliding_window", UINT32_MAX, "from 0 to");
        row("llama.attention.causal", false, "'llama.attention.causal' is false: the model makes embeddings");
        for (const char* field : {"attention.scale", "logit_scale", "residual_scale", "embedding_scale",
                                  "attn_logit_softcapping", "final_logit_softcapping"})
            row(("llama." + std::string(field)).c_str(), -1.0f, "has to be a positive number");
    }

    void says_what_is_wrong() {
        QFETCH(QString, key);
        QFETCH(QVariant, value);
        QFETCH(QString, sentence);
        const std::string name = key.toStdString();
        const std::string error = error_of(with([&](GgufWriter& f) {
            f.drop(name);
            if (!value.isValid())
                return;
            if (value.typeId() == QMetaType::QString)
                f.string(name, value.toString().toStdString());
            else if (value.typeId() == QMetaType::Float)
                f.f32(name, value.toFloat());
            else if (value.typeId() == QMetaType::Bool)
                f.boolean(name, value.toBool());
            else
                f.u32(name, value.toUInt());
        }));
        QVERIFY2(error.starts_with("model.gguf: ") && error.ends_with("."), error.c_str());
        QVERIFY2(error.find(sentence.toStdString()) != std::string::npos, error.c_str());
    }

    void heads_that_do_not_divide_need_a_length() {
        const auto file = with([](GgufWriter& f) {
            f.drop("llama.attention.head_count")
                .u32("llama.attention.head_count", 6)
                .drop("llama.attention.key_length");
        });
        QCOMPARE(QString::fromStdString(error_of(file)),
                 "model.gguf: the field 'llama.attention.key_length' is missing, and the embedding length, "
                 "64, cannot be "
                 "divided among 6 heads.");
    }

    void lists_have_an_entry_for_each_layer() {
        QVERIFY(error_of(with([](GgufWriter& f) {
                    f.drop("llama.feed_forward_length").u32s("llama.feed_forward_length", {96, 96, 96});
                })).find("has 3 numbers, but the model has 2 layers") != std::string::npos);
        QVERIFY(error_of(with([](GgufWriter& f) {
                    f.booleans("llama.attention.sliding_window_pattern", {true, false, true});
                })).find("has 3 entries, but the model has 2 layers") != std::string::npos);
        QVERIFY(error_of(with([](GgufWriter& f) {
                    f.i32s("llama.attention.sliding_window_pattern", {1, 0});
                })).find("a list of truth values is needed") != std::string::npos);
        QVERIFY(error_of(with([](GgufWriter& f) {
                    f.tensor("rope_factors_long.weight", {8}, std::vector<float>(8, 2.0f));
                })).find("'rope_factors_long.weight' belongs to LongRoPE") != std::string::npos);
    }

    void factors_of_frequencies_are_checked() {
        const auto refused = [](const std::vector<float>& values) {
            return error_of(with([&](GgufWriter& f) {
                f.tensor("rope_freqs.weight", {static_cast<int64_t>(values.size())}, values);
            }));
        };
        QCOMPARE(refused({1, 1, 1, 1, 8, 8, 8, 8}), std::string());
        QVERIFY(refused({1, 1}).find("has the shape [2] and the type F32; [8] and F32") != std::string::npos);
        QVERIFY(refused({1, 1, 0, 1, 1, 1, 1, 1}).find("holds 0; it has to hold positive") !=
                std::string::npos);
        QVERIFY(refused({1, 1, NAN, 1, 1, 1, 1, 1}).find("it has to hold positive") != std::string::npos);
    }

    void more_tokens_than_rows_are_refused() {
        const std::string error = error_of(with([](GgufWriter& f) {
            f.drop("tokenizer.ggml.tokens")
                .strings("tokenizer.ggml.tokens", std::vector<std::string>(274, "x"));
        }));
        QVERIFY(error.find("has 274 tokens, but the tensor 'token_embd.weight' has only 273 rows") !=
                std::string::npos);
    }
};

QTEST_GUILESS_MAIN(tst_config)
#include "tst_config.moc"
