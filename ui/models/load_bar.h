// The line that shows a load: which model, how far, and a way to stop it.
#pragma once

#include "ui/engine_session.h"

#include <QFrame>

class QLabel;
class QProgressBar;
class QToolButton;

namespace orrery::ui {

class LoadBar : public QFrame {
    Q_OBJECT

public:
    explicit LoadBar(EngineSession* session, QWidget* parent = nullptr);

private:
    void start(const QString& path);
    void progress(qint64 done, qint64 total);

    QString name_;
    QLabel* text_;
    QProgressBar* bar_;
    QToolButton* cancel_;
};

} // namespace orrery::ui
