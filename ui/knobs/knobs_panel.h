// The knobs: every sampling parameter of a chat, changed while the answer streams.
#pragma once

#include "ui/chat/chat_model.h"

#include <QWidget>

namespace orrery::ui {

class KnobsPanel : public QWidget {
    Q_OBJECT

public:
    explicit KnobsPanel(QWidget* parent = nullptr);

    void setSettings(const ChatSettings& settings);
    const ChatSettings& settings() const { return settings_; }

signals:
    /// The user has turned a knob.
    void settingsChanged(const orrery::ui::ChatSettings& settings);

private:
    ChatSettings settings_;
};

} // namespace orrery::ui
