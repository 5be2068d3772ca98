// Every block format against blocks decoded by gguf-py, and the few that can be written against their
// error bounds.
#include "kernels/error.h"
#include "kernels/quant/half.h"
#include "kernels/quant/tensor_type.h"
#include "tests/support/test_data.h"

#include <QtTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::test;

namespace {

void every_type() {
    QTest::addColumn<uint32_t>("id");
    for (const TensorType type : all_tensor_types())
        QTest::newRow(info(type).name) << static_cast<uint32_t>(type);
}

TensorType fetched_type(uint32_t id) {
    return static_cast<TensorType>(id);
}

std::vector<float> decode_string(TensorType type, const std::string& bytes, size_t misalignment) {
    const TensorTypeInfo& layout = info(type);
    const size_t elements = bytes.size() / layout.block_bytes * layout.block_elements;
    std::vector<std::byte> shifted(bytes.size() + misalignment);
    std::memcpy(shifted.data() + misalignment, bytes.data(), bytes.size());
    std::vector<float> decoded(elements);
    decode(type, shifted.data() + misalignment, decoded.data(), elements);
    return decoded;
}

std::vector<float> random_weights(size_t count, float scale, std::mt19937& random) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> weights(count);
    for (float& weight : weights)
        weight = normal(random);
    return weights;
}

} // namespace

class TestTensorType : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        seed_ = std::random_device()();
        qInfo("seed %u", seed_);
    }

    void sizes_are_those_of_gguf() {
        ORRERY_NEED_TEST_DATA();
        const nlohmann::json types = read_json(data_dir() / "quant/index.json")["types"];
        QCOMPARE(all_tensor_types().size(), types.size());
        for (const auto& [name, expected] : types.items()) {
            const TensorTypeInfo* layout = tensor_type_info(expected["id"]);
            QVERIFY2(layout, name.c_str());
            QCOMPARE(std::string(layout->name), name);
            QCOMPARE(layout->block_elements, expected["block_elements"].get<uint32_t>());
            QCOMPARE(layout->block_bytes, expected["block_bytes"].get<uint32_t>());
            QCOMPARE(row_bytes(fetched_type(expected["id"]), 3 * layout->block_elements),
                     size_t{3} * layout->block_bytes);
        }
    }

    void ids_that_name_no_type_have_no_layout() {
        std::set<uint32_t> known;
        for (const TensorType type : all_tensor_types())
            QVERIFY(known.insert(static_cast<uint32_t>(type)).second);
        QVERIFY(std::is_sorted(all_tensor_types().begin(), all_tensor_types().end()));
        for (uint32_t id = 0; id < 300; ++id)
            QCOMPARE(tensor_type_info(id) != nullptr, known.contains(id));
        for (const uint32_t id : {0x80000000u, 0xffffffffu, 1u << 16, 256u + 2u})
            QVERIFY(!tensor_type_info(id));
    }

    void decodes_what_gguf_py_decodes_data() { every_type(); }
    void decodes_what_gguf_py_decodes() {
        ORRERY_NEED_TEST_DATA();
        QFETCH(uint32_t, id);
        const TensorType type = fetched_type(id);
        const std::string name = info(type).name;
        const std::string blocks = read_file(data_dir() / "quant" / (name + ".bin"));
        const std::string raw = read_file(data_dir() / "quant" / (name + ".f32"));
        std::vector<float> expected(raw.size() / sizeof(float));
        std::memcpy(expected.data(), raw.data(), raw.size());

        const std::vector<float> decoded = decode_string(type, blocks, 0);
        QCOMPARE(decoded.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i)
            QVERIFY2(std::abs(decoded[i] - expected[i]) <= 1e-6f * std::abs(expected[i]),
                     qPrintable(QString("weight %1: %2, not %3").arg(i).arg(decoded[i]).arg(expected[i])));
    }

    void decodes_from_any_address_and_block_by_block_data() { every_type(); }
    void decodes_from_any_address_and_block_by_block() {
        QFETCH(uint32_t, id);
        const TensorType type = fetched_type(id);
        const TensorTypeInfo& layout = info(type);
        const std::string bytes = random_bytes(9 * layout.block_bytes);
        const std::vector<float> decoded = decode_string(type, bytes, 0);
        const size_t float_bytes = layout.block_elements * sizeof(float);
        for (size_t misalignment = 1; misalignment < 8; ++misalignment) {
            const std::vector<float> again = decode_string(type, bytes, misalignment);
            QVERIFY(std::memcmp(again.data(), decoded.data(), 9 * float_bytes) == 0);
        }
        for (size_t block = 0; block < 9; ++block) {
            const std::vector<float> one =
                decode_string(type, bytes.substr(block * layout.block_bytes, layout.block_bytes), 0);
            QVERIFY(std::memcmp(one.data(), &decoded[block * layout.block_elements], float_bytes) == 0);
        }
    }

    // Any bytes decode to something: indices stay inside their tables, infinite and NaN scales give
    // infinities and NaNs. (With the sanitizers this is a proof; without them it is at least a run.)
    void any_bytes_decode_data() { every_type(); }
    void any_bytes_decode() {
        QFETCH(uint32_t, id);
        const TensorType type = fetched_type(id);
        const TensorTypeInfo& layout = info(type);
        decode_string(type, random_bytes(4096 * layout.block_bytes), 0);
        for (const char fill : {'\0', '\x7c', '\x7e', '\x7f', '\x80', '\xfc', '\xff'}) {
            const std::vector<float> decoded = decode_string(type, std::string(layout.block_bytes, fill), 0);
            QCOMPARE(decoded.size(), size_t{layout.block_elements});
        }
    }

    void an_encoded_weight_is_near_its_float_data() {
        QTest::addColumn<uint32_t>("id");
        for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::BF16, TensorType::Q8_0,
                                      TensorType::Q4_0, TensorType::Q4_1})
            QTest::newRow(info(type).name) << static_cast<uint32_t>(type);
    }
    void an_encoded_weight_is_near_its_float() {
        QFETCH(uint32_t, id);
        const TensorType type = fetched_type(id);
        std::mt19937 random(seed_);
        for (const float scale : {1e-2f, 1.0f, 37.0f, 500.0f})
            for (const float mean : {0.0f, 5.0f * scale, -100.0f * scale}) {
                std::vector<float> weights = random_weights(32 * 64, scale, random);
                for (float& weight : weights)
                    weight += mean;
                check_round_trip(type, weights);
            }
    }

    void encoding_blocks_of_one_value_data() { an_encoded_weight_is_near_its_float_data(); }
    void encoding_blocks_of_one_value() {
        QFETCH(uint32_t, id);
        const TensorType type = fetched_type(id);
        for (const float value : {0.0f, -0.0f, 1.0f, -1.0f, 0.3f, -0.3f, 1000.0f})
            check_round_trip(type, std::vector<float>(32, value));
        // One outlier among zeros.
        for (const float value : {3.0f, -3.0f}) {
            std::vector<float> weights(32, 0.0f);
            weights[17] = value;
            check_round_trip(type, weights);
        }
    }

    void non_finite_weights_encode_without_undefined_behaviour_data() {
        an_encoded_weight_is_near_its_float_data();
    }
    void non_finite_weights_encode_without_undefined_behaviour() {
        QFETCH(uint32_t, id);
        const TensorType type = fetched_type(id);
        const float infinity = std::numeric_limits<float>::infinity();
        const float nan = std::numeric_limits<float>::quiet_NaN();
        for (const float odd : {infinity, -infinity, nan, 3e38f, -3e38f, 1e-45f}) {
            std::vector<float> weights(32, 1.0f);
            weights[5] = odd;
            std::vector<std::byte> bytes(row_bytes(type, 32));
            encode(type, weights.data(), bytes.data(), 32);
            decode(type, bytes.data(), weights.data(), 32);
            if (type == TensorType::F32) {
                QVERIFY(std::memcmp(&weights[5], &odd, sizeof odd) == 0);
            }
        }
    }

    void other_types_cannot_be_encoded() {
        const std::vector<float> weights(256, 1.0f);
        std::vector<std::byte> bytes(2048);
        int refused = 0;
        for (const TensorType type : all_tensor_types()) {
            try {
                encode(type, weights.data(), bytes.data(), 256);
            } catch (const Error& error) {
                ++refused;
                QVERIFY(std::string(error.what()).find(info(type).name) != std::string::npos);
            }
        }
        QCOMPARE(refused, 20);
    }

private:
    /// The error a format may make on one of the weights of a block.
    static float bound(TensorType type, float weight, float least, float greatest) {
        const float largest = std::max(std::abs(least), std::abs(greatest));
        const float f16_error = 0x1p-11f; // relative
        switch (type) {
        case TensorType::F32:
            return 0.0f;
        case TensorType::F16:
            return std::abs(weight) * f16_error + 0x1p-25f;
        case TensorType::BF16:
            return std::abs(weight) * 0x1p-8f; // half a unit of the last of 8 bits
        case TensorType::Q8_0:
            return largest / 127 * 0.5f + largest * f16_error + 127 * 0x1p-25f;
        case TensorType::Q4_0:
            return largest / 8 + largest * 2 * f16_error + 8 * 0x1p-25f;
        default: {
            const float offset_error = std::abs(least) * f16_error;
            const float range = greatest - least + offset_error;
            return range / 30 + offset_error + range * 2 * f16_error + 16 * 0x1p-25f;
        }
        }
    }

    void check_round_trip(TensorType type, const std::vector<float>& weights) {
        std::vector<std::byte> bytes(row_bytes(type, weights.size()));
        std::vector<float> back(weights.size());
        encode(type, weights.data(), bytes.data(), weights.size());
        decode(type, bytes.data(), back.data(), back.size());
        for (size_t i = 0; i < weights.size(); ++i) {
            const auto block = weights.begin() + static_cast<std::ptrdiff_t>(i / 32 * 32);
            const auto [least, greatest] = std::minmax_element(block, block + 32);
            const float error = std::abs(back[i] - weights[i]);
            QVERIFY2(error <= bound(type, weights[i], *least, *greatest),
                     qPrintable(QString("%1 came back as %2 (block from %3 to %4)")
                                    .arg(weights[i])
                                    .arg(back[i])
                                    .arg(*least)
                                    .arg(*greatest)));
        }
    }

    std::string random_bytes(size_t count) const {
        std::mt19937 random(seed_);
        std::string bytes(count, '\0');
        for (char& byte : bytes)
            byte = static_cast<char>(random());
        return bytes;
    }

    unsigned seed_ = 0;
};

QTEST_GUILESS_MAIN(TestTensorType)
#include "tst_tensor_type.moc"
