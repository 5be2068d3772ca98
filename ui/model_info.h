// What the window shows about a loaded model.
#pragma once

#include "engine/engine.h"

#include <QMetaType>
#include <QString>

namespace orrery::ui {

struct ModelInfo {
    QString path;
    QString name;         ///< by the file's name, such as "SmolLM2-135M-Instruct"
    QString title;        ///< the name in the file's metadata; may be empty
    QString architecture; ///< such as "llama"
    QString format;       ///< weight format that most bytes are in, such as "Q4_1"
    QString device;       ///< such as "CPU AVX-512 VNNI"
    QString deviceReason; ///< why this device; may be empty
    int threads = 0;
    int contextTokens = 0;        ///< tokens of the longest sequence that the engine takes
    int trainedContextTokens = 0; ///< what the model was trained for
    int vocabularyTokens = 0;
    qint64 fileBytes = 0;
    qint64 weightBytes = 0; ///< read by one pass
    qint64 loadMs = 0;      ///< what loading took
    bool hasChatTemplate = false;
};

/// `engine` is the configuration in force, with every 0 replaced. `loadMs` is taken as it is.
ModelInfo describe(const orrery::Model& model, const orrery::EngineConfig& engine, qint64 loadMs);

} // namespace orrery::ui

Q_DECLARE_METATYPE(orrery::ui::ModelInfo)
