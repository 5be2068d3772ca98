// The bottom line of the window: device, model, context in use, speed.
#pragma once

#include "ui/engine_session.h"

#include <QStatusBar>

#include <deque>

class QLabel;

namespace orrery::ui {

class ChatModel;

class StatusLine : public QStatusBar {
    Q_OBJECT

public:
    explicit StatusLine(EngineSession* session, QWidget* parent = nullptr);

    /// The chat whose context is counted.
    void setChat(const ChatModel* chat);

private:
    void onReports(const std::vector<orrery::StepReport>& reports);
    void showModel();
    void showDevice();
    void showContext();
    void changeEvent(QEvent* event) override;

    /// New tokens of one step, and when it was.
    struct Step {
        int64_t start_ns;
        int64_t end_ns;
        int generated;
    };

    EngineSession* session_;
    const ChatModel* chat_ = nullptr;
    QMetaObject::Connection chatConnection_;
    QLabel* device_;
    QLabel* model_;
    QLabel* context_;
    QLabel* rate_;
    std::deque<Step> recent_;
    int contextTokens_ = 0;
};

} // namespace orrery::ui
