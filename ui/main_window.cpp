#include "ui/main_window.h"

#include "ui/charts/chart_strip.h"
#include "ui/chat/chat_pane.h"
#include "ui/frame_clock.h"
#include "ui/knobs/knobs_panel.h"

#include <QDockWidget>

namespace orrery::ui {

MainWindow::MainWindow(EngineSession* session, QWidget* parent)
    : QMainWindow(parent),
      session_(session),
      clock_(new FrameClock(this)),
      pane_(new ChatPane(session)),
      knobs_(new KnobsPanel),
      charts_(new ChartStrip(session)) {
    setWindowTitle(tr("Orrery"));
    resize(1280, 860);
    setCentralWidget(pane_);
    const auto dock = [this](Qt::DockWidgetArea area, const QString& name, const QString& title,
                             QWidget* widget) {
        auto* holder = new QDockWidget(title, this);
        holder->setObjectName(name);
        holder->setWidget(widget);
        addDockWidget(area, holder);
    };
    dock(Qt::RightDockWidgetArea, QStringLiteral("knobsDock"), tr("Knobs"), knobs_);
    dock(Qt::BottomDockWidgetArea, QStringLiteral("chartsDock"), tr("Engine"), charts_);
    charts_->setFrameClock(clock_);

    connect(clock_, &FrameClock::tick, session_, &EngineSession::drainReports);
    connect(session_, &EngineSession::activityChanged, clock_,
            [this](int active) { clock_->setBusy(active > 0); });
    connect(knobs_, &KnobsPanel::settingsChanged, this, [this](const ChatSettings& settings) {
        if (pane_->chat())
            pane_->chat()->setSettings(settings);
    });
    connect(pane_, &ChatPane::newChatRequested, this, &MainWindow::newChat);
    newChat();
}

MainWindow::~MainWindow() = default;

void MainWindow::newChat() {
    pane_->setChat(new ChatModel(session_, this));
    pane_->focusComposer();
}

} // namespace orrery::ui
