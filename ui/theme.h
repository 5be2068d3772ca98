// Colours, fonts, measures and icons: one table, one meaning per colour.
//
// Whether a widget is light or dark is a property of its palette, so nothing here is global: a colour is a
// function of its meaning and of the palette that is in force. Widgets that paint by hand ask again in
// paintEvent() and need do nothing when the theme changes.
//
// The hues are Okabe & Ito's (2008), safe for colour-blind eyes, darkened on light ground until marks reach a
// contrast of 3 and text one of 4.5 (WCAG 2).
#pragma once

#include <QColor>
#include <QFont>
#include <QIcon>
#include <QPalette>
#include <QString>

class QApplication;

namespace orrery::ui::theme {

enum class Meaning {
    Prefill,     ///< prefill; waiting to be read
    Decode,      ///< decode; written now
    Reused,      ///< reused from the cache
    Speculative, ///< speculative, accepted (rejected: the same, hatched)
    Recomputed,  ///< computed again, evicted, preempted
    Free,        ///< free, idle
    Error,
    Surface, ///< the ground of the window
    Raised,  ///< fields, messages, menus
    Line,
    Text,
    FaintText,
};
inline constexpr int meanings = int(Meaning::FaintText) + 1;

/// The table itself.
QColor tableColor(Meaning meaning, bool dark);

bool isDark(const QPalette& palette);
/// Whether the system asks for high contrast: black on white or white on black, taken as it is.
bool isHighContrast(const QPalette& palette);

/// The colour of a meaning on the ground that `palette` has.
QColor color(Meaning meaning, const QPalette& palette);
/// One of eight hues of about equal lightness that tell requests apart; letters go with them (see letter()).
QColor requestColor(int index, const QPalette& palette);
QString letter(int index); ///< A, B, …, Z, AA, …

/// Contrast ratio of two opaque colours, 1 … 21 (WCAG 2.2, relative luminance).
double contrast(const QColor& a, const QColor& b);

// Measures, device-independent pixels.
inline constexpr int space1 = 4;
inline constexpr int space2 = 8;
inline constexpr int space3 = 12;
inline constexpr int space4 = 16;
inline constexpr int space6 = 24;
inline constexpr int radius = 6;
inline constexpr int iconSize = 20;
inline constexpr int conversationWidth = 760;

QFont codeFont();    ///< the system's monospace, 12.5 px
QFont numberFont();  ///< the text font with tabular figures
QFont captionFont(); ///< the text font, a little smaller, for captions

/// One of the line drawings in resources/icons, in the text colour of the application's palette at the moment
/// it is painted, sharp at every scale.
QIcon icon(const QString& name);
/// The same in the colour of a meaning.
QIcon icon(const QString& name, Meaning meaning);

enum class Choice { System, Light, Dark };

/// The chosen theme, from the settings.
Choice chosen();
void choose(Choice choice);

/// Puts the theme in force: style, palette, fonts. `Choice::System` follows the desktop, also when it changes
/// while the program runs, and leaves a high-contrast palette as it is.
void apply(QApplication& app, Choice choice);

} // namespace orrery::ui::theme
