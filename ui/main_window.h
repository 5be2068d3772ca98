// The window: chats on the left, the conversation in the middle, knobs on the right, pictures below.
#pragma once

#include "ui/chat/chat_model.h"
#include "ui/engine_session.h"

#include <QMainWindow>

namespace orrery::ui {

class ChartStrip;
class ChatPane;
class FrameClock;
class KnobsPanel;

class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    explicit MainWindow(EngineSession* session, QWidget* parent = nullptr);
    ~MainWindow() override;

    ChatPane* chatPane() const { return pane_; }
    KnobsPanel* knobs() const { return knobs_; }
    ChartStrip* charts() const { return charts_; }

public slots:
    void newChat();

private:
    EngineSession* session_;
    FrameClock* clock_;
    ChatPane* pane_;
    KnobsPanel* knobs_;
    ChartStrip* charts_;
};

} // namespace orrery::ui
