#include "ui/format.h"

#include <QCoreApplication>
#include <QTextBoundaryFinder>

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery::ui::format {

namespace {
class Words {
    Q_DECLARE_TR_FUNCTIONS(Units)
};

constexpr char32_t zero_width_joiner = 0x200d;

/// The code point that begins at `at`.
char32_t codePointAt(const QString& text, qsizetype at) {
    const QChar c = text[at];
    return c.isHighSurrogate() && at + 1 < text.size() ? QChar::surrogateToUcs4(c, text[at + 1])
                                                       : c.unicode();
}

bool isRegionalIndicator(char32_t c) {
    return c >= 0x1f1e6 && c <= 0x1f1ff;
}

/// Whether rules of Unicode annex 29 for marks and emoji forbid a cut at `at`, which is inside the text.
/// Qt 6.4 sees emoji behind an Indic letter as a part of that script, and finds boundaries inside of them.
bool joined(const QString& text, qsizetype at) {
    if (text[at].isLowSurrogate())
        return true;
    const char32_t next = codePointAt(text, at);
    if (QChar::isMark(next) || next == zero_width_joiner || (next >= 0x1f3fb && next <= 0x1f3ff))
        return true;
    if (text[at - 1] == QChar(zero_width_joiner))
        return true;
    // Flags are pairs of letters, counted from where the letters begin.
    int letters = 0;
    for (qsizetype i = at; i >= 2 && isRegionalIndicator(codePointAt(text, i - 2)); i -= 2)
        ++letters;
    return isRegionalIndicator(next) && letters % 2 == 1;
}
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

QString shortened(const QString& text, int length) {
    if (text.size() <= length)
        return text;
    QTextBoundaryFinder finder(QTextBoundaryFinder::Grapheme, text);
    for (qsizetype end = length; end > 0; --end) {
        finder.setPosition(end);
        if (finder.isAtBoundary() && !joined(text, end))
            return text.first(end);
    }
    const bool inPair = length > 0 && text[length].isLowSurrogate();
    return text.first(inPair ? length - 1 : length);
}

} // namespace orrery::ui::format
