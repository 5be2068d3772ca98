#include "ui/language.h"

#include <QApplication>
#include <QFont>
#include <QFontInfo>
#include <QLibraryInfo>
#include <QLocale>
#include <QSettings>
#include <QTranslator>

namespace orrery::ui::language {

namespace {

constexpr QLatin1StringView key("language");
constexpr QLatin1StringView chinese("zh_CN");
constexpr QLatin1StringView english("en");

/// Replaces the translator of this name that was installed before.
void install(const QString& name, const QString& file, const QString& folder) {
    QCoreApplication* app = QCoreApplication::instance();
    delete app->findChild<QTranslator*>(name, Qt::FindDirectChildrenOnly); // takes itself out
    auto* translator = new QTranslator(app);
    translator->setObjectName(name);
    if (translator->load(file, folder))
        QCoreApplication::installTranslator(translator);
    else
        delete translator;
}

/// Where the interface font has no Chinese, the desktop would choose among fonts by its own language:
/// characters that Chinese and Japanese draw differently would come in the wrong form.
void preferChineseGlyphs(bool on) {
    static const QStringList fonts = {
        QStringLiteral("Noto Sans CJK SC"), QStringLiteral("Source Han Sans SC"),
        QStringLiteral("Microsoft YaHei UI"), QStringLiteral("WenQuanYi Micro Hei")};
    QFont font = QApplication::font();
    // "Sans" and the like stand for a list of their own: the font that is meant goes first, by its name.
    const QString interfaceFont = QFontInfo(font).family();
    font.setFamilies(on ? QStringList(interfaceFont) + fonts : QStringList(interfaceFont));
    QApplication::setFont(font);
}

} // namespace

std::vector<Language> available() {
    return {{english, QStringLiteral("English")}, {chinese, QStringLiteral("简体中文")}};
}

QString chosen() {
    return QSettings().value(key).toString();
}

void choose(const QString& code) {
    code.isEmpty() ? QSettings().remove(key) : QSettings().setValue(key, code);
}

QString resolve(const QString& code) {
    if (!code.isEmpty())
        return code;
    for (const QString& wanted : QLocale::system().uiLanguages()) {
        const QLocale locale(wanted);
        if (locale.language() == QLocale::Chinese && locale.script() != QLocale::TraditionalChineseScript)
            return chinese;
        if (locale.language() == QLocale::English)
            return english;
    }
    return english;
}

void apply(const QString& code) {
    const QString language = resolve(code);
    // The bare C locale would leave out the thousands separators.
    const QLocale system = QLocale::system();
    QLocale::setDefault(code.isEmpty() && system.language() != QLocale::C ? system : QLocale(language));
    if (qobject_cast<QApplication*>(QCoreApplication::instance()))
        preferChineseGlyphs(language == chinese);
    install(QStringLiteral("qtTranslator"), QStringLiteral("qtbase_") + language,
            QLibraryInfo::path(QLibraryInfo::TranslationsPath));
    install(QStringLiteral("orreryTranslator"), QStringLiteral("orrery_") + language,
            QStringLiteral(":/orrery/translations"));
}

} // namespace orrery::ui::language
