#include "engine/model/describe.h"
#include "engine/model/gguf.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <cmath>

using namespace orrery;
using nlohmann::ordered_json;

class tst_describe : public QObject {
    Q_OBJECT

private slots:
    // The figures of the default model as its makers give them: 134.5 million parameters; two sets of
    // 30 layers · 3 heads · 64 elements of two bytes for each token of an f16 cache.
    void describes_the_default_model() {
        ORRERY_NEED_DEFAULT_MODEL();
        const auto json = describe(*GgufFile::open(test::default_model()), 1000);
        QCOMPARE(json.at("architecture").get<std::string>(), std::string("llama"));
        QCOMPARE(json.at("file_bytes").get<int>(), 98362432);
        QCOMPARE(json.at("parameters").get<int>(), 134515008);
        QCOMPARE(json.at("tensors").size(), size_t{272});
        QCOMPARE(json.at("metadata").size(), size_t{33});
        QCOMPARE(json.at("metadata").at("tokenizer.ggml.tokens").at("count").get<int>(), 49152);
        QCOMPARE(json.at("metadata").at("tokenizer.ggml.tokens").at("first").at(1).get<std::string>(),
                 std::string("<|im_start|>"));
        QCOMPARE(json.at("metadata").at("general.languages").dump(), std::string("[\"en\"]"));
        QVERIFY(!json.contains("cannot_run"));
        const auto& memory = json.at("memory");
        QCOMPARE(memory.at("context_tokens").get<int>(), 1000);
        QCOMPARE(memory.at("kv_bytes_per_token").at("f16").get<int>(), 2 * 30 * 3 * 64 * 2);
        QCOMPARE(memory.at("kv_bytes_per_token").at("f32").get<int>(), 2 * 30 * 3 * 64 * 4);
        QCOMPARE(memory.at("kv_bytes").at("f16").get<int>(), 1000 * 2 * 30 * 3 * 64 * 2);
        QCOMPARE(json.at("sizes").at("Q8_0").at("bytes").get<int>(), 49152 * 576 / 32 * 34);
    }

    void parts_add_up() {
        const auto file = GgufFile::open(test::tiny_model({.weights = kernels::TensorType::Q4_0}));
        const auto json = describe(*file);
        int64_t parameters = 0, bytes = 0, tensors = 0, listed = 0;
        for (const auto& [type, size] : json.at("sizes").items()) {
            parameters += size.at("parameters").get<int64_t>();
            bytes += size.at("bytes").get<int64_t>();
            tensors += size.at("tensors").get<int64_t>();
        }
        for (const auto& tensor : json.at("tensors"))
            listed += tensor.at("bytes").get<int64_t>();
        QCOMPARE(json.at("sizes").size(), size_t{2}); // F32 norms and Q4_0 matrices
        QCOMPARE(parameters, json.at("parameters").get<int64_t>());
        QCOMPARE(bytes, json.at("memory").at("weight_bytes").get<int64_t>());
        QCOMPARE(bytes, listed);
        QCOMPARE(tensors, static_cast<int64_t>(file->tensors().size()));
        QCOMPARE(json.at("memory").at("context_tokens").get<int>(), 512);
    }

    void a_model_that_cannot_run_is_described_too() {
        test::GgufWriter writer;
        writer.string("general.architecture", "gemma9").string("bytes", "\xff!").f32("odd", NAN);
        const auto bytes = writer.bytes();
        const auto json = describe(*GgufFile::parse(bytes, "model.gguf"));
        QVERIFY(json.at("cannot_run").get<std::string>().find("'gemma9'") != std::string::npos);
        QCOMPARE(json.at("metadata").at("bytes").get<std::string>(), std::string("\uFFFD!"));
        QCOMPARE(json.at("name"), ordered_json());
        QVERIFY(!json.dump().empty()); // what is no UTF-8 would throw here
    }
};

QTEST_GUILESS_MAIN(tst_describe)
#include "tst_describe.moc"
