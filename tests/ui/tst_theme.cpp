// The colours have the contrast that is asked for, computed here from WCAG's own definition; icons follow the
// palette and stay sharp.
#include "ui/theme.h"

#include <QApplication>
#include <QImage>
#include <QtTest>

#include <cmath>

using namespace orrery::ui;
using theme::Meaning;

namespace {

/// WCAG 2.2, "relative luminance" and "contrast ratio", written down again from the standard.
double contrastOf(const QColor& a, const QColor& b) {
    const auto luminance = [](const QColor& c) {
        double sum = 0;
        const std::pair<int, double> channels[] = {
            {c.red(), 0.2126}, {c.green(), 0.7152}, {c.blue(), 0.0722}};
        for (const auto& [value, weight] : channels) {
            const double s = value / 255.0;
            sum += weight * (s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4));
        }
        return sum;
    };
    const double la = luminance(a), lb = luminance(b);
    return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QPalette ground(const QColor& window, const QColor& text) {
    QPalette palette;
    palette.setColor(QPalette::Window, window);
    palette.setColor(QPalette::WindowText, text);
    return palette;
}

} // namespace

class TestTheme : public QObject {
    Q_OBJECT

private slots:
    void contrastIsTheStandards() {
        QCOMPARE(theme::contrast(Qt::black, Qt::white), 21.0);
        const double grey = theme::contrast(QColor("#777777"), Qt::white);
        QVERIFY(std::abs(grey - contrastOf(QColor("#777777"), Qt::white)) < 1e-5); // QColor has 16 bits
        // A value that the standard's own explanations give: #767676 on white is the lightest grey that
        // passes 4.5.
        QVERIFY(theme::contrast(QColor("#767676"), Qt::white) >= 4.5);
        QVERIFY(theme::contrast(QColor("#777777"), Qt::white) < 4.5);
    }

    void tableHoldsItsContrasts_data() {
        QTest::addColumn<bool>("dark");
        QTest::newRow("light") << false;
        QTest::newRow("dark") << true;
    }
    void tableHoldsItsContrasts() {
        QFETCH(bool, dark);
        for (const Meaning groundMeaning : {Meaning::Surface, Meaning::Raised}) {
            const QColor on = theme::tableColor(groundMeaning, dark);
            for (const Meaning text : {Meaning::Text, Meaning::FaintText, Meaning::Error})
                QVERIFY2(contrastOf(theme::tableColor(text, dark), on) >= 4.5,
                         qPrintable(QString::number(int(text))));
            for (const Meaning mark : {Meaning::Prefill, Meaning::Decode, Meaning::Reused,
                                       Meaning::Speculative, Meaning::Recomputed, Meaning::Error})
                QVERIFY2(contrastOf(theme::tableColor(mark, dark), on) >= 3,
                         qPrintable(QString::number(int(mark))));
            const QPalette palette = ground(on, theme::tableColor(Meaning::Text, dark));
            for (int i = 0; i < 8; ++i)
                QVERIFY2(contrastOf(theme::requestColor(i, palette), on) >= 3,
                         qPrintable(QStringLiteral("request %1").arg(i)));
        }
    }

    /// Requests are told apart by hue, not by lightness: none stands out.
    void requestColoursAreOfOneLightness() {
        for (const bool dark : {false, true}) {
            const QPalette palette =
                ground(theme::tableColor(Meaning::Surface, dark), theme::tableColor(Meaning::Text, dark));
            double low = 100, high = 0;
            for (int i = 0; i < 8; ++i) {
                const double c = contrastOf(theme::requestColor(i, palette), palette.color(QPalette::Window));
                low = std::min(low, c);
                high = std::max(high, c);
            }
            QVERIFY2(high / low < 1.35, qPrintable(QStringLiteral("%1 … %2").arg(low).arg(high)));
        }
    }

    void letters() {
        QCOMPARE(theme::letter(0), QStringLiteral("A"));
        QCOMPARE(theme::letter(25), QStringLiteral("Z"));
        QCOMPARE(theme::letter(26), QStringLiteral("AA"));
        QCOMPARE(theme::letter(27), QStringLiteral("AB"));
        QCOMPARE(theme::letter(701), QStringLiteral("ZZ"));
        QCOMPARE(theme::letter(702), QStringLiteral("AAA"));
    }

    void choiceDecidesTheGround_data() {
        QTest::addColumn<theme::Choice>("choice");
        QTest::addColumn<bool>("dark");
        QTest::newRow("light") << theme::Choice::Light << false;
        QTest::newRow("dark") << theme::Choice::Dark << true;
    }
    void choiceDecidesTheGround() {
        QFETCH(theme::Choice, choice);
        QFETCH(bool, dark);
        theme::apply(*qApp, choice);
        const QPalette palette = QApplication::palette();
        QCOMPARE(theme::isDark(palette), dark);
        QCOMPARE(palette.color(QPalette::Window), theme::tableColor(Meaning::Surface, dark));
        QCOMPARE(theme::color(Meaning::Decode, palette), theme::tableColor(Meaning::Decode, dark));
        // What the style draws by itself stays readable too.
        for (const auto group : {QPalette::Active, QPalette::Inactive}) {
            QVERIFY(contrastOf(palette.color(group, QPalette::HighlightedText),
                               palette.color(group, QPalette::Highlight)) >= 4.5);
            QVERIFY(contrastOf(palette.color(group, QPalette::PlaceholderText),
                               palette.color(group, QPalette::Base)) >= 4.5);
            QVERIFY(contrastOf(palette.color(group, QPalette::Link), palette.color(group, QPalette::Base)) >=
                    4.5);
        }
    }

    /// The words with @ in the style sheet are all replaced.
    void styleSheetIsComplete() {
        theme::apply(*qApp, theme::Choice::Dark);
        QVERIFY(!qApp->styleSheet().isEmpty());
        QVERIFY2(!qApp->styleSheet().contains(QLatin1Char('@')), qPrintable(qApp->styleSheet()));
    }

    /// A widget without a ground of its own (style sheets make them) and a disabled one keep their theme.
    void themeIsKnownFromAnyPalette() {
        for (const bool dark : {false, true}) {
            theme::apply(*qApp, dark ? theme::Choice::Dark : theme::Choice::Light);
            QPalette palette = QApplication::palette();
            palette.setCurrentColorGroup(QPalette::Disabled);
            QCOMPARE(theme::isDark(palette), dark);
            palette.setColor(QPalette::Window, Qt::transparent);
            for (const auto group : {QPalette::Active, QPalette::Inactive, QPalette::Disabled}) {
                palette.setCurrentColorGroup(group);
                QCOMPARE(theme::isDark(palette), dark);
                QCOMPARE(theme::color(Meaning::Text, palette), theme::tableColor(Meaning::Text, dark));
            }
        }
    }

    void highContrastIsLeftAsItIs() {
        const QPalette highContrast = ground(Qt::black, Qt::white);
        QVERIFY(theme::isHighContrast(highContrast));
        QCOMPARE(theme::color(Meaning::Surface, highContrast), QColor(Qt::black));
        QCOMPARE(theme::color(Meaning::Line, highContrast), QColor(Qt::white));
        for (const bool dark : {false, true})
            QVERIFY(!theme::isHighContrast(
                ground(theme::tableColor(Meaning::Surface, dark), theme::tableColor(Meaning::Text, dark))));
    }

    void iconsAreThere_data() {
        QTest::addColumn<QString>("name");
        for (const char* name : {"plus", "close", "send", "stop", "regenerate", "reset", "chevron-down",
                                 "folder", "search", "warning", "copy", "edit", "table", "pause"})
            QTest::newRow(name) << QString::fromLatin1(name);
    }
    void iconsAreThere() {
        QFETCH(QString, name);
        theme::apply(*qApp, theme::Choice::Light);
        const QIcon icon = theme::icon(name);
        QVERIFY(!icon.isNull());
        const QImage image = icon.pixmap(QSize(20, 20), 1.0).toImage();
        QCOMPARE(image.size(), QSize(20, 20));
        int opaque = 0;
        for (int y = 0; y < image.height(); ++y)
            for (int x = 0; x < image.width(); ++x)
                opaque += image.pixelColor(x, y).alpha() > 100;
        QVERIFY2(opaque >= 8, "the icon is empty");
    }

    /// An icon is drawn in the text colour of the theme in force, and in as many pixels as the screen has.
    void iconsFollowThemeAndScale() {
        const QIcon icon = theme::icon(QStringLiteral("stop"));
        for (const bool dark : {false, true}) {
            theme::apply(*qApp, dark ? theme::Choice::Dark : theme::Choice::Light);
            for (const double scale : {1.0, 1.25, 2.0}) {
                const QPixmap pixmap = icon.pixmap(QSize(20, 20), scale);
                QCOMPARE(pixmap.devicePixelRatio(), scale);
                QCOMPARE(pixmap.size(), QSize(qRound(20 * scale), qRound(20 * scale)));
                const QImage image = pixmap.toImage();
                QColor strongest(Qt::transparent);
                for (int y = 0; y < image.height(); ++y)
                    for (int x = 0; x < image.width(); ++x)
                        if (image.pixelColor(x, y).alpha() > strongest.alpha())
                            strongest = image.pixelColor(x, y);
                QVERIFY(strongest.alpha() > 200);
                const QColor text = theme::tableColor(Meaning::Text, dark);
                QVERIFY(std::abs(strongest.red() - text.red()) <= 2);
                QVERIFY(std::abs(strongest.blue() - text.blue()) <= 2);
            }
        }
    }
};

QTEST_MAIN(TestTheme)
#include "tst_theme.moc"
