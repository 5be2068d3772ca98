#include "ui/format.h"

#include <QCoreApplication>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::ui::format {

namespace {
class Words {
    Q_DECLARE_TR_FUNCTIONS(Units)
};
} // namespace

QString number(double value, const QLocale& locale) {
    if (!std::isfinite(value))
        return QStringLiteral("–");
    if (value == 0)
        return locale.toString(0);
    // The exponent after rounding to three digits: 99.96 has three of them before the point.
    const double magnitude = std::floor(std::log10(std::abs(value)));
    const double step = std::pow(10.0, magnitude - 2);
    const double rounded = std::round(std::abs(value) / step) * step;
    const int decimals = std::clamp(2 - int(std::floor(std::log10(rounded) + 1e-9)), 0, 12);
    return locale.toString(value, 'f', decimals);
}

QString count(qint64 value, const QLocale& locale) {
    return locale.toString(value);
}

QString duration(qint64 nanoseconds, const QLocale& locale) {
    const double ns = double(nanoseconds);
    if (ns < 999.5)
        return Words::tr("%1 ns").arg(number(ns, locale));
    if (ns < 999.5e3)
        return Words::tr("%1 µs").arg(number(ns / 1e3, locale));
    if (ns < 999.5e6)
        return Words::tr("%1 ms").arg(number(ns / 1e6, locale));
    return Words::tr("%1 s").arg(number(ns / 1e9, locale));
}

QString rate(double tokensPerSecond, const QLocale& locale) {
    return Words::tr("%1 tok/s").arg(number(tokensPerSecond, locale));
}

QString bytes(qint64 value, const QLocale& locale) {
    static constexpr std::array units = {
        QT_TRANSLATE_NOOP("Units", "%1 B"), QT_TRANSLATE_NOOP("Units", "%1 KiB"),
        QT_TRANSLATE_NOOP("Units", "%1 MiB"), QT_TRANSLATE_NOOP("Units", "%1 GiB"),
        QT_TRANSLATE_NOOP("Units", "%1 TiB")};
    double shown = double(value);
    size_t unit = 0;
    // 1,000 KiB and more would need four digits.
    while (shown >= 999.5 && unit + 1 < units.size()) {
        shown /= 1024;
        ++unit;
    }
    return Words::tr(units[unit]).arg(number(shown, locale));
}

} // namespace orrery::ui::format
