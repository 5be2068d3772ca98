// Both 16-bit floats, over every one of their values and at every rounding border between two of them.
#include "kernels/quant/half.h"

#include <QtTest>

#include <bit>
#include <cmath>
#include <limits>

using namespace orrery::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

bool is_nan(uint16_t half, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits;
    const int exponent = (half & 0x7fff) >> fraction_bits;
    return exponent == (1 << exponent_bits) - 1 && (half & ((1 << fraction_bits) - 1)) != 0;
}

/// The value of a 16-bit float by the definition of IEEE 754, in exact double arithmetic.
double value_of(uint16_t half, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (half & 0x7fff) >> fraction_bits;
    const int fraction = half & ((1 << fraction_bits) - 1);
    double value = 0;
    if (exponent == (1 << exponent_bits) - 1)
        value = std::numeric_limits<double>::infinity();
    else if (exponent == 0)
        value = std::ldexp(fraction, 1 - bias - fraction_bits);
    else
        value = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return half & 0x8000 ? -value : value;
}

struct Format {
    int exponent_bits;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
};

constexpr Format f16 = {5, f16_to_f32, f32_to_f16};
constexpr Format bf16 = {8, bf16_to_f32, f32_to_bf16};

} // namespace

class TestHalf : public QObject {
    Q_OBJECT

private slots:
    void widening_is_exact_for_every_half_data() { formats(); }
    void widening_is_exact_for_every_half() {
        QFETCH(int, exponent_bits);
        const Format& format = exponent_bits == 5 ? f16 : bf16;
        for (int bits = 0; bits < 65536; ++bits) {
            const auto half = static_cast<uint16_t>(bits);
            const float wide = format.widen(half);
            if (is_nan(half, exponent_bits)) {
                QVERIFY2(std::isnan(wide), qPrintable(QString::number(bits, 16)));
            } else {
                QVERIFY2(static_cast<double>(wide) == value_of(half, exponent_bits),
                         qPrintable(QString::number(bits, 16)));
                QCOMPARE(std::signbit(wide), bits >= 0x8000);
            }
        }
    }

    void every_half_survives_the_round_trip_data() { formats(); }
    void every_half_survives_the_round_trip() {
        QFETCH(int, exponent_bits);
        const Format& format = exponent_bits == 5 ? f16 : bf16;
        for (int bits = 0; bits < 65536; ++bits) {
            const auto half = static_cast<uint16_t>(bits);
            const uint16_t back = format.narrow(format.widen(half));
            if (is_nan(half, exponent_bits))
                QVERIFY(is_nan(back, exponent_bits));
            else
                QCOMPARE(back, half);
        }
    }

    // Rounding is monotone, so the two neighbours of each midpoint and the midpoint itself settle it for
    // every float.
    void midpoints_round_to_even_and_their_neighbours_to_the_nearest_data() { formats(); }
    void midpoints_round_to_even_and_their_neighbours_to_the_nearest() {
        QFETCH(int, exponent_bits);
        const Format& format = exponent_bits == 5 ? f16 : bf16;
        const int infinite = ((1 << exponent_bits) - 1) << (15 - exponent_bits);
        for (int lower = 0; lower < infinite; ++lower) {
            const int upper = lower + 1;
            // Between the largest finite value and infinity the midpoint is where one more step would end.
            const double low = value_of(static_cast<uint16_t>(lower), exponent_bits);
            const double step = upper < infinite
                                    ? value_of(static_cast<uint16_t>(upper), exponent_bits) - low
                                    : low - value_of(static_cast<uint16_t>(lower - 1), exponent_bits);
            const auto middle = static_cast<float>(low + step / 2);
            QCOMPARE(static_cast<double>(middle), low + step / 2);
            const int even = lower % 2 == 0 ? lower : upper;
            for (const float sign : {1.0f, -1.0f}) {
                const int sign_bit = sign < 0 ? 0x8000 : 0;
                QCOMPARE(int{format.narrow(sign * middle)}, even | sign_bit);
                QCOMPARE(int{format.narrow(sign * std::nextafter(middle, 0.0f))}, lower | sign_bit);
                QCOMPARE(int{format.narrow(sign * std::nextafter(middle, infinity))}, upper | sign_bit);
            }
        }
    }

    void what_is_too_large_becomes_infinity_data() { formats(); }
    void what_is_too_large_becomes_infinity() {
        QFETCH(int, exponent_bits);
        const Format& format = exponent_bits == 5 ? f16 : bf16;
        for (const float value : {std::numeric_limits<float>::max(), infinity}) {
            QCOMPARE(format.widen(format.narrow(value)), infinity);
            QCOMPARE(format.widen(format.narrow(-value)), -infinity);
        }
    }

    // A NaN whose payload lies in the bits that are cut off must not turn into an infinity, nor carry into
    // the sign.
    void every_kind_of_nan_stays_one_data() { formats(); }
    void every_kind_of_nan_stays_one() {
        QFETCH(int, exponent_bits);
        const Format& format = exponent_bits == 5 ? f16 : bf16;
        for (const uint32_t bits : {0x7f800001u, 0x7f801fffu, 0x7f80ffffu, 0x7fffffffu, 0xff800001u,
                                    0xffffffffu, 0x7fc00000u, 0x7fffe000u, 0x7fff0000u})
            QVERIFY(is_nan(format.narrow(std::bit_cast<float>(bits)), exponent_bits));
    }

private:
    static void formats() {
        QTest::addColumn<int>("exponent_bits");
        QTest::newRow("binary16") << 5;
        QTest::newRow("bfloat16") << 8;
    }
};

QTEST_GUILESS_MAIN(TestHalf)
#include "tst_half.moc"
