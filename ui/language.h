// The language of the window: the system's, or the one that was chosen.
#pragma once

#include <QString>

#include <vector>

namespace orrery::ui::language {

struct Language {
    QString code; ///< "en", "zh_CN"; empty: as the system
    QString name; ///< in the language itself
};

/// All that there are, without the system's.
std::vector<Language> available();

/// The chosen one, from the settings; empty: as the system.
QString chosen();
void choose(const QString& code);

/// The code of the language that is in force for a choice.
QString resolve(const QString& code);

/// Puts a choice in force: translations of ours and of Qt, the way numbers are written and, where there is a
/// QApplication, its font. Windows made before keep their words.
void apply(const QString& code);

} // namespace orrery::ui::language
