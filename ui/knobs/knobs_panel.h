// The knobs: every sampling parameter of a chat, changed while the answer streams, in force from its next
// token; and what holds from the next answer on: the system prompt and the longest length.
#pragma once

#include "ui/chat/chat_model.h"

#include <QWidget>

#include <vector>

class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QSpinBox;
class QToolButton;
class QVBoxLayout;

namespace orrery::ui {

class KnobRow;

class KnobsPanel : public QWidget {
    Q_OBJECT

public:
    explicit KnobsPanel(QWidget* parent = nullptr);

    /// Shows the settings of a chat. Emits nothing.
    void setSettings(const ChatSettings& settings);
    const ChatSettings& settings() const { return settings_; }

signals:
    /// The user has turned a knob.
    void settingsChanged(const orrery::ui::ChatSettings& settings);

private:
    void addRow(QVBoxLayout* column, KnobRow* row);
    QWidget* makeAnswerPart();
    QWidget* makePromptPart();
    QWidget* makeHeader();
    void applyPreset(int index);
    void refresh();
    void changed();

    ChatSettings settings_;
    std::vector<KnobRow*> rows_;
    QToolButton* presets_;
    QSpinBox* maxTokens_;
    QLabel* seedLabel_;
    QLineEdit* seed_;
    QPlainTextEdit* systemPrompt_;
};

} // namespace orrery::ui
