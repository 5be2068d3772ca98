#include "ui/theme.h"

#include <QApplication>
#include <QFile>
#include <QFontDatabase>
#include <QHash>
#include <QIconEngine>
#include <QPainter>
#include <QPixmapCache>
#include <QSettings>
#include <QStyle>
#include <QStyleFactory>
#include <QSvgRenderer>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

/// Resources of a static library are there once they are asked for by name, from outside of any namespace.
static void initResources() {
    Q_INIT_RESOURCE(orrery);
}

namespace orrery::ui::theme {

namespace {

struct Pair {
    QRgb light;
    QRgb dark;
};

constexpr std::array<Pair, meanings> table = {{
    {0xFFC77700, 0xFFE69F00}, // Prefill
    {0xFF0072B2, 0xFF56B4E9}, // Decode
    {0xFF00795A, 0xFF2FBF94}, // Reused
    {0xFFA0527F, 0xFFCC79A7}, // Speculative
    {0xFFB84A00, 0xFFF0743A}, // Recomputed
    {0xFFD9DCE1, 0xFF3A3F47}, // Free
    {0xFFB3261E, 0xFFFF8A80}, // Error
    {0xFFFBFBFC, 0xFF16181C}, // Surface
    {0xFFFFFFFF, 0xFF1E2126}, // Raised
    {0xFFE3E5E8, 0xFF2E3238}, // Line
    {0xFF1B1D21, 0xFFE8EAED}, // Text
    {0xFF5C6370, 0xFF9AA1AC}, // FaintText
}};

/// Hues at a lightness that reads on either ground. Neighbours in the order are far apart on the circle, so
/// that two requests side by side are never told apart by a shade alone.
constexpr std::array<Pair, 8> request_table = {{
    {0xFF2F6DB5, 0xFF7FB2EE}, // blue
    {0xFFB0611A, 0xFFE3A263}, // ochre
    {0xFF2E7D4F, 0xFF79C398}, // green
    {0xFF9B4F96, 0xFFD99BD4}, // purple
    {0xFF1F7F86, 0xFF6CC3CA}, // teal
    {0xFFB34A54, 0xFFEC9AA1}, // rose
    {0xFF6B7421, 0xFFB7C065}, // olive
    {0xFF6558B8, 0xFFADA3F2}, // violet
}};

double luminance(const QColor& color) {
    const auto linear = [](double c) {
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
}

QColor mix(const QColor& a, const QColor& b, double share) {
    const auto blend = [share](int x, int y) { return int(std::lround(x + (y - x) * share)); };
    return QColor(blend(a.red(), b.red()), blend(a.green(), b.green()), blend(a.blue(), b.blue()));
}

/// Whether the desktop is dark, as far as Qt 6.4 tells: by the palette it gives, on Windows by its setting.
bool systemIsDark(const QPalette& systemPalette) {
#ifdef Q_OS_WIN
    const QSettings personal(
        QStringLiteral(
            "HKEY_CURRENT_USER\\Software\\Microsoft\\Windows\\CurrentVersion\\Themes\\Personalize"),
        QSettings::NativeFormat);
    if (personal.contains(QStringLiteral("AppsUseLightTheme")))
        return personal.value(QStringLiteral("AppsUseLightTheme")).toInt() == 0;
#endif
    return isDark(systemPalette);
}

QPalette makePalette(bool dark) {
    const auto of = [dark](Meaning meaning) { return tableColor(meaning, dark); };
    const QColor surface = of(Meaning::Surface), raised = of(Meaning::Raised), line = of(Meaning::Line),
                 text = of(Meaning::Text), faint = of(Meaning::FaintText), accent = of(Meaning::Decode);
    QPalette palette;
    palette.setColor(QPalette::Window, surface);
    palette.setColor(QPalette::WindowText, text);
    palette.setColor(QPalette::Base, raised);
    palette.setColor(QPalette::AlternateBase, mix(raised, line, 0.3));
    palette.setColor(QPalette::Text, text);
    palette.setColor(QPalette::PlaceholderText, faint);
    palette.setColor(QPalette::Button, raised);
    palette.setColor(QPalette::ButtonText, text);
    palette.setColor(QPalette::BrightText, of(Meaning::Error));
    palette.setColor(QPalette::ToolTipBase, raised);
    palette.setColor(QPalette::ToolTipText, text);
    palette.setColor(QPalette::Highlight, accent);
    palette.setColor(QPalette::HighlightedText, dark ? surface : raised);
    palette.setColor(QPalette::Link, accent);
    palette.setColor(QPalette::LinkVisited, of(Meaning::Speculative));
    palette.setColor(QPalette::Light, raised);
    palette.setColor(QPalette::Midlight, mix(raised, line, 0.5));
    palette.setColor(QPalette::Mid, line);
    palette.setColor(QPalette::Dark, mix(line, text, 0.25));
    palette.setColor(QPalette::Shadow, mix(line, text, 0.5));
    // Disabled text stays readable: it is still information.
    const QColor disabled = mix(faint, surface, 0.35);
    for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        palette.setColor(QPalette::Disabled, role, disabled);
    palette.setColor(QPalette::Disabled, QPalette::Highlight, line);
    palette.setColor(QPalette::Disabled, QPalette::HighlightedText, disabled);
    return palette;
}

/// What Fusion cannot be told by palette alone: flat fields, one-pixel lines, the one corner radius.
QString styleSheet(const QPalette& palette) {
    const QColor line = color(Meaning::Line, palette), text = color(Meaning::Text, palette),
                 faint = color(Meaning::FaintText, palette), raised = color(Meaning::Raised, palette),
                 surface = color(Meaning::Surface, palette), accent = color(Meaning::Decode, palette);
    QFile file(QStringLiteral(":/orrery/style.qss"));
    if (!file.open(QIODevice::ReadOnly))
        return {};
    QString sheet = QString::fromUtf8(file.readAll());
    const std::pair<const char*, QColor> names[] = {
        {"@line-strong", mix(line, text, 0.30)},
        {"@line", line},
        {"@text", text},
        {"@faint", faint},
        {"@disabled", palette.color(QPalette::Disabled, QPalette::Text)},
        {"@raised", raised},
        {"@surface", surface},
        {"@error-ground", mix(surface, color(Meaning::Error, palette), 0.10)},
        {"@error", color(Meaning::Error, palette)},
        {"@accent-ground", mix(surface, accent, 0.14)},
        {"@accent", accent},
        {"@hover", mix(surface, text, 0.06)},
        {"@pressed", mix(surface, text, 0.12)},
        {"@on-accent", palette.color(QPalette::HighlightedText)},
    };
    for (const auto& [name, value] : names)
        sheet.replace(QLatin1String(name), value.name());
    return sheet;
}

/// Renders one SVG in the colour that the palette has when it is painted.
class TintedIconEngine : public QIconEngine {
public:
    TintedIconEngine(QString name, std::optional<Meaning> meaning)
        : name_(std::move(name)), meaning_(meaning) {
        QFile file(QStringLiteral(":/orrery/icons/%1.svg").arg(name_));
        if (file.open(QIODevice::ReadOnly))
            svg_ = file.readAll();
    }

    QIconEngine* clone() const override { return new TintedIconEngine(*this); }
    QString key() const override { return QStringLiteral("orrery-tinted"); }
    bool isNull() override { return svg_.isEmpty(); }

    void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State state) override {
        const qreal scale = painter->device() ? painter->device()->devicePixelRatioF() : 1.0;
        painter->drawPixmap(rect, scaledPixmap(rect.size() * scale, mode, state, scale));
    }

    QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
        return scaledPixmap(size, mode, state, 1.0);
    }

    /// `size` is in device pixels.
    QPixmap scaledPixmap(const QSize& size, QIcon::Mode mode, QIcon::State, qreal scale) override {
        const QColor tint = tintFor(mode);
        const QString cacheKey = QStringLiteral("orrery/%1/%2/%3x%4")
                                     .arg(name_, tint.name(QColor::HexArgb))
                                     .arg(size.width())
                                     .arg(size.height());
        QPixmap pixmap;
        if (!QPixmapCache::find(cacheKey, &pixmap)) {
            QByteArray svg = svg_;
            svg.replace("currentColor", tint.name().toUtf8());
            QSvgRenderer renderer(svg);
            pixmap = QPixmap(size);
            pixmap.fill(Qt::transparent);
            QPainter painter(&pixmap);
            renderer.render(&painter, QRectF(QPointF(), QSizeF(size)));
            painter.end();
            QPixmapCache::insert(cacheKey, pixmap);
        }
        pixmap.setDevicePixelRatio(scale);
        return pixmap;
    }

private:
    QColor tintFor(QIcon::Mode mode) const {
        const QPalette palette = QGuiApplication::palette();
        if (mode == QIcon::Disabled)
            return palette.color(QPalette::Disabled, QPalette::ButtonText);
        return color(meaning_.value_or(Meaning::Text), palette);
    }

    QString name_;
    std::optional<Meaning> meaning_;
    QByteArray svg_;
};

} // namespace

QColor tableColor(Meaning meaning, bool dark) {
    const Pair& pair = table[size_t(meaning)];
    return QColor::fromRgb(dark ? pair.dark : pair.light);
}

bool isDark(const QPalette& palette) {
    // Of the active widget: disabled text is grey on either ground. And a style sheet may have made the
    // ground transparent, which has no lightness: then the text tells.
    const QColor text = palette.color(QPalette::Active, QPalette::WindowText);
    const QColor ground = palette.color(QPalette::Active, QPalette::Window);
    constexpr double middle_grey = 0.18;
    return ground.alpha() == 255 ? luminance(ground) < luminance(text) : luminance(text) > middle_grey;
}

bool isHighContrast(const QPalette& palette) {
    const QRgb ground = palette.color(QPalette::Window).rgb(),
               text = palette.color(QPalette::WindowText).rgb();
    const QRgb black = qRgb(0, 0, 0), white = qRgb(255, 255, 255);
    return (ground == black && text == white) || (ground == white && text == black);
}

QColor color(Meaning meaning, const QPalette& palette) {
    if (isHighContrast(palette)) {
        switch (meaning) {
        case Meaning::Surface:
            return palette.color(QPalette::Window);
        case Meaning::Raised:
            return palette.color(QPalette::Base);
        case Meaning::Line:
        case Meaning::Text:
        case Meaning::FaintText:
            return palette.color(QPalette::WindowText);
        default:
            break;
        }
    }
    return tableColor(meaning, isDark(palette));
}

QColor requestColor(int index, const QPalette& palette) {
    const Pair& pair = request_table[size_t(index) % request_table.size()];
    return QColor::fromRgb(isDark(palette) ? pair.dark : pair.light);
}

QString letter(int index) {
    QString name;
    for (int rest = index; rest >= 0; rest = rest / 26 - 1)
        name.prepend(QChar(u'A' + rest % 26));
    return name;
}

double contrast(const QColor& a, const QColor& b) {
    const double la = luminance(a), lb = luminance(b);
    return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QFont codeFont() {
    QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
    // 12.5 px: half a pixel needs points, of which a logical inch has 72 and 96 px.
    font.setPointSizeF(12.5 * 72.0 / 96.0);
    return font;
}

QFont numberFont() {
    QFont font = QApplication::font();
    // Qt 6.4 cannot ask a font for tabular figures; those of the usual interface fonts are tabular by
    // default.
    font.setKerning(false);
    return font;
}

QFont captionFont() {
    QFont font = QApplication::font();
    font.setPixelSize(std::max(11, font.pixelSize() - 2));
    return font;
}

QIcon icon(const QString& name) {
    return QIcon(new TintedIconEngine(name, std::nullopt));
}

QIcon icon(const QString& name, Meaning meaning) {
    return QIcon(new TintedIconEngine(name, meaning));
}

Choice chosen() {
    const QString name = QSettings().value(QStringLiteral("theme")).toString();
    if (name == QLatin1String("light"))
        return Choice::Light;
    return name == QLatin1String("dark") ? Choice::Dark : Choice::System;
}

void choose(Choice choice) {
    QSettings settings;
    if (choice == Choice::System)
        settings.remove(QStringLiteral("theme"));
    else
        settings.setValue(QStringLiteral("theme"),
                          choice == Choice::Light ? QStringLiteral("light") : QStringLiteral("dark"));
}

void apply(QApplication& app, Choice choice) {
    static bool applying = false; // setPalette() comes back here as a change of theme
    if (applying)
        return;
    applying = true;
    initResources();
    if (app.styleSheet().isEmpty())
        QApplication::setStyle(QStyleFactory::create(QStringLiteral("fusion")));

    // An empty palette gives back the desktop's own.
    QApplication::setPalette(QPalette());
    const QPalette system = QApplication::palette();
    QPalette palette = system;
    if (choice != Choice::System || !isHighContrast(system)) {
        const bool dark = choice == Choice::System ? systemIsDark(system) : choice == Choice::Dark;
        palette = makePalette(dark);
    }
    QApplication::setPalette(palette);

    QFont font = app.font();
    if (font.pixelSize() < 0) {
        // 13 px, or what the desktop asks for where that is larger.
        const int wanted = int(std::lround(font.pointSizeF() * 96.0 / 72.0));
        font.setPixelSize(std::clamp(wanted, 13, 24));
        QApplication::setFont(font);
    }
    app.setStyleSheet(styleSheet(palette));
    applying = false;
}

} // namespace orrery::ui::theme
