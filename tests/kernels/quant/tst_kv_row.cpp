// Rows of the key/value cache: sizes, error bounds, and the rotation that makes four bits enough for keys.
#include "kernels/quant/kv_row.h"
#include "kernels/quant/tensor_type.h"

#include <QtTest>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace orrery::kernels;

namespace {

constexpr size_t lengths[] = {1, 2, 15, 16, 31, 32, 33, 40, 64, 80, 96, 128, 192, 256, 257};

std::vector<float> random_row(size_t elements, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> row(elements);
    for (float& value : row)
        value = normal(random);
    return row;
}

std::vector<float> round_trip(KvType type, const std::vector<float>& row) {
    // Guard bytes show whether encoding stays inside the row, at an odd address.
    const size_t bytes = row_bytes(type, row.size());
    std::vector<std::byte> encoded(bytes + 2, std::byte{0xa5});
    encode_kv_row(type, row.data(), encoded.data() + 1, row.size());
    if (encoded.front() != std::byte{0xa5} || encoded.back() != std::byte{0xa5})
        throw std::runtime_error("encode_kv_row wrote outside of the row");
    std::vector<float> decoded(row.size());
    decode_kv_row(type, encoded.data() + 1, decoded.data(), decoded.size());
    return decoded;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
        sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}

} // namespace

class TestKvRow : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        seed_ = std::random_device()();
        qInfo("seed %u", seed_);
    }

    void rows_have_the_size_of_their_groups() {
        QCOMPARE(row_bytes(KvType::f32, 80), size_t{320});
        QCOMPARE(row_bytes(KvType::f16, 80), size_t{160});
        QCOMPARE(row_bytes(KvType::int8, 64), size_t{2 * 34});
        QCOMPARE(row_bytes(KvType::int8, 80), size_t{3 * 34});
        QCOMPARE(row_bytes(KvType::int4, 128), size_t{4 * 24});
        QCOMPARE(row_bytes(KvType::int4, 33), size_t{2 * 24});
        QCOMPARE(row_bytes(KvType::int4, 1), size_t{24});
    }

    void decoded_rows_are_near() {
        std::mt19937 random(seed_);
        for (const size_t length : lengths) {
            const std::vector<float> row = random_row(length, random);
            QVERIFY(round_trip(KvType::f32, row) == row);
            const std::vector<float> f16 = round_trip(KvType::f16, row);
            const std::vector<float> int8 = round_trip(KvType::int8, row);
            for (size_t i = 0; i < length; ++i) {
                const auto group = row.begin() + static_cast<std::ptrdiff_t>(i / 32 * 32);
                const auto group_end =
                    row.begin() + static_cast<std::ptrdiff_t>(std::min(length, i / 32 * 32 + 32));
                const auto [least, greatest] = std::minmax_element(group, group_end);
                const float largest = std::max(std::abs(*least), std::abs(*greatest));
                // Half a step each, and one part in 2¹¹ for the rounding of the scale.
                QVERIFY(std::abs(f16[i] - row[i]) <= std::abs(row[i]) * 0x1p-11f + 0x1p-25f);
                QVERIFY(std::abs(int8[i] - row[i]) <= largest * (0.5f / 127 + 0x1p-11f));
            }
        }
    }

    // 16 elements, the last repeated where there are fewer, are at most as far from what is stored as from 16
    // levels between their least and their greatest; and clearly nearer than those of a Q4_1 block are.
    void int4_is_nearer_than_the_levels_of_its_range() {
        std::mt19937 random(seed_);
        double error = 0;
        double error_of_q4_1 = 0;
        for (int repeat = 0; repeat < 200; ++repeat)
            for (const size_t length : lengths) {
                std::vector<float> row = random_row(length, random);
                const float scale = std::exp2(random_row(1, random)[0]);
                for (float& value : row)
                    value = value * scale + (repeat % 2 ? 3 * scale : 0);
                const std::vector<float> stored = round_trip(KvType::int4, row);
                for (size_t first = 0; first < length; first += 16) {
                    const size_t count = std::min(length - first, size_t{16});
                    const auto group = row.begin() + static_cast<std::ptrdiff_t>(first);
                    const auto [least, greatest] =
                        std::minmax_element(group, group + static_cast<std::ptrdiff_t>(count));
                    // The scale and the least value are stored with 11 bits.
                    const double largest = std::max(std::abs(*least), std::abs(*greatest));
                    const double step = (double(*greatest) - *least) / 15;
                    double sum = 0;
                    double bound = 0;
                    for (size_t i = first; i < first + 16; ++i) {
                        const size_t at = std::min(i, length - 1);
                        const double level = step == 0 ? 0 : std::round((row[at] - *least) / step);
                        const double of_range = std::abs(*least + level * step - row[at]) + largest * 0x1p-9;
                        sum += std::pow(double(stored[at]) - row[at], 2);
                        bound += of_range * of_range;
                    }
                    QVERIFY2(sum <= bound, qPrintable(QString("length %1, element %2: %3, not %4")
                                                          .arg(length)
                                                          .arg(first)
                                                          .arg(sum)
                                                          .arg(bound)));
                }
                if (length % 32 != 0)
                    continue;
                std::vector<std::byte> blocks(row_bytes(TensorType::Q4_1, length));
                std::vector<float> of_blocks(length);
                encode(TensorType::Q4_1, row.data(), blocks.data(), length);
                decode(TensorType::Q4_1, blocks.data(), of_blocks.data(), length);
                for (size_t i = 0; i < length; ++i) {
                    error += std::pow((double(stored[i]) - row[i]) / scale, 2);
                    error_of_q4_1 += std::pow((double(of_blocks[i]) - row[i]) / scale, 2);
                }
            }
        QVERIFY2(error < 0.7 * error_of_q4_1, qPrintable(QString("%1 of %2").arg(error).arg(error_of_q4_1)));
    }

    // What a failing model may write: the bytes are defined, and finite elements stay finite.
    void int4_takes_what_is_not_finite_or_too_large() {
        const float infinity = std::numeric_limits<float>::infinity();
        for (const float strange : {infinity, -infinity, std::nanf(""), 1e30f, -1e30f, 1e5f})
            for (const size_t at : {0, 5, 15, 16, 31}) {
                std::vector<float> row(32, 0.5f);
                row[at] = strange;
                const std::vector<float> stored = round_trip(KvType::int4, row);
                const size_t other = at < 16 ? 16 : 0;
                for (size_t i = other; i < other + 16; ++i)
                    QCOMPARE(stored[i], 0.5f);
            }
    }

    // Against the definition: entry (i, j) of the matrix is (−1)^(number of common set bits of i and j) / √n.
    void rotation_is_the_walsh_hadamard_matrix() {
        std::mt19937 random(seed_);
        for (const size_t length : lengths) {
            const std::vector<float> row = random_row(length, random);
            std::vector<float> rotated = row;
            rotate(rotated.data(), length);
            const size_t piece = size_t{1} << std::countr_zero(length);
            for (size_t i = 0; i < length; ++i) {
                const size_t begin = i / piece * piece;
                double expected = 0;
                for (size_t j = 0; j < piece; ++j) {
                    const bool minus = std::popcount((i - begin) & j) & 1;
                    expected += minus ? -row[begin + j] : row[begin + j];
                }
                expected /= std::sqrt(static_cast<double>(piece));
                QVERIFY2(std::abs(rotated[i] - expected) < 1e-5,
                         qPrintable(QString("length %1, element %2").arg(length).arg(i)));
            }
        }
    }

    void rotation_is_its_own_inverse_and_keeps_dot_products() {
        std::mt19937 random(seed_);
        for (const size_t length : lengths) {
            const std::vector<float> key = random_row(length, random);
            const std::vector<float> query = random_row(length, random);
            std::vector<float> turned_key = key;
            std::vector<float> turned_query = query;
            rotate(turned_key.data(), length);
            rotate(turned_query.data(), length);
            QVERIFY(std::abs(dot(turned_key, turned_query) - dot(key, query)) < 1e-4);
            rotate(turned_key.data(), length);
            for (size_t i = 0; i < length; ++i)
                QVERIFY(std::abs(turned_key[i] - key[i]) < 1e-5f);
        }
    }

    // What the rotation is for: one huge channel must not cost the others their precision.
    void rotation_saves_keys_with_an_outlier() {
        std::mt19937 random(seed_);
        double plain_error = 0;
        double rotated_error = 0;
        for (int repeat = 0; repeat < 200; ++repeat) {
            std::vector<float> key = random_row(128, random);
            std::vector<float> query = random_row(128, random);
            key[17] += 60.0f;
            const double right = dot(key, query);
            plain_error += std::pow(dot(round_trip(KvType::int4, key), query) - right, 2);
            rotate(key.data(), key.size());
            rotate(query.data(), query.size());
            rotated_error += std::pow(dot(round_trip(KvType::int4, key), query) - right, 2);
        }
        QVERIFY2(
            rotated_error < plain_error / 2,
            qPrintable(QString("squared errors: rotated %1, plain %2").arg(rotated_error).arg(plain_error)));
    }

private:
    unsigned seed_ = 0;
};

QTEST_GUILESS_MAIN(TestKvRow)
#include "tst_kv_row.moc"
