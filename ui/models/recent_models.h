// The models that were opened last, newest first, remembered between two starts.
#pragma once

#include <QString>
#include <QStringList>

namespace orrery::ui::recent_models {

inline constexpr int max_models = 10;

QStringList list();
void add(const QString& path);
void remove(const QString& path);
void clear();

/// What to open where no model is named: the one that was opened last, or one in the user's model folder;
/// empty where there is none.
QString modelToStartWith();
/// The user's model folder, and the one that the open dialog starts in.
QString modelFolder();

} // namespace orrery::ui::recent_models
