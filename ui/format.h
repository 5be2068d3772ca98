// Numbers as people read them: three significant digits, thousands separated, a unit always. And texts that
// are too long.
#pragma once

#include <QLocale>
#include <QString>

namespace orrery::ui::format {

/// Three significant digits: 0.0123, 1.23, 12.3, 123, 1,230 is 1,230 (whole numbers are never cut).
QString number(double value, const QLocale& locale = QLocale());
/// A whole number with its thousands separated.
QString count(qint64 value, const QLocale& locale = QLocale());
/// A length of time in the unit that fits: "310 ns", "4.20 ms", "1.25 s".
QString duration(qint64 nanoseconds, const QLocale& locale = QLocale());
/// "58.0 tok/s"
QString rate(double tokensPerSecond, const QLocale& locale = QLocale());
/// Memory in binary units: "93.8 MiB".
QString bytes(qint64 bytes, const QLocale& locale = QLocale());

/// The beginning of a text, at most `length` UTF-16 units of it, cut between two characters as people see
/// them (grapheme clusters, Unicode annex 29). A first cluster longer than that is cut between code points.
QString shortened(const QString& text, int length);

} // namespace orrery::ui::format
