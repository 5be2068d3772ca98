#include "ui/knobs/knobs_panel.h"

namespace orrery::ui {

KnobsPanel::KnobsPanel(QWidget* parent) : QWidget(parent) {
    setObjectName(QStringLiteral("knobsPanel"));
}

void KnobsPanel::setSettings(const ChatSettings& settings) {
    settings_ = settings;
}

} // namespace orrery::ui
