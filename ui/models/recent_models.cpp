#include "ui/models/recent_models.h"

#include <QDir>
#include <QFileInfo>
#include <QSettings>
#include <QStandardPaths>

namespace orrery::ui::recent_models {

namespace {
constexpr QLatin1StringView key("models/recent");
}

QStringList list() {
    return QSettings().value(key).toStringList();
}

void add(const QString& path) {
    QStringList paths = list();
    const QString absolute = QFileInfo(path).absoluteFilePath();
    paths.removeAll(absolute);
    paths.prepend(absolute);
    QSettings().setValue(key, QStringList(paths.mid(0, max_models)));
}

void remove(const QString& path) {
    QStringList paths = list();
    paths.removeAll(QFileInfo(path).absoluteFilePath());
    QSettings().setValue(key, paths);
}

void clear() {
    QSettings().remove(key);
}

QString modelFolder() {
    return QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation) +
           QStringLiteral("/orrery/models");
}

QString modelToStartWith() {
    const QStringList recent = list();
    if (!recent.isEmpty() && QFileInfo::exists(recent.first()))
        return recent.first();
    const QFileInfoList found =
        QDir(modelFolder())
            .entryInfoList({QStringLiteral("*.gguf")}, QDir::Files | QDir::Readable, QDir::Name);
    return found.isEmpty() ? QString() : found.first().absoluteFilePath();
}

} // namespace orrery::ui::recent_models
