#include "ui/models/load_bar.h"

#include "ui/format.h"
#include "ui/theme.h"

#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QProgressBar>
#include <QToolButton>

namespace orrery::ui {

namespace {
constexpr int ticks = 1000;
}

LoadBar::LoadBar(EngineSession* session, QWidget* parent)
    : QFrame(parent), text_(new QLabel), bar_(new QProgressBar), cancel_(new QToolButton) {
    setObjectName(QStringLiteral("loadBar"));
    text_->setObjectName(QStringLiteral("loadText"));
    text_->setTextFormat(Qt::PlainText);
    bar_->setTextVisible(false);
    bar_->setAccessibleName(tr("Loading the model"));
    cancel_->setObjectName(QStringLiteral("loadCancel"));
    cancel_->setIcon(theme::icon(QStringLiteral("close")));
    cancel_->setIconSize({16, 16});
    cancel_->setToolTip(tr("Stop loading"));
    cancel_->setAccessibleName(tr("Stop loading"));
    cancel_->setFocusPolicy(Qt::StrongFocus);

    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(theme::space4, theme::space1, theme::space2, theme::space2);
    grid->setVerticalSpacing(theme::space1);
    grid->addWidget(text_, 0, 0);
    grid->addWidget(cancel_, 0, 1);
    grid->addWidget(bar_, 1, 0, 1, 2);
    hide();

    connect(cancel_, &QToolButton::clicked, session, &EngineSession::cancelLoad);
    connect(session, &EngineSession::loadStarted, this, &LoadBar::start);
    connect(session, &EngineSession::loadProgress, this, &LoadBar::progress);
    connect(session, &EngineSession::stateChanged, this, [this](EngineSession::State state) {
        if (state != EngineSession::State::Loading)
            hide();
    });
    if (session->state() == EngineSession::State::Loading)
        start(session->loadingPath());
}

void LoadBar::start(const QString& path) {
    name_ = QFileInfo(path).completeBaseName();
    text_->setText(tr("Loading %1 …").arg(name_));
    bar_->setRange(0, 0);
    show();
}

void LoadBar::progress(qint64 done, qint64 total) {
    if (total <= 0)
        return;
    text_->setText(tr("Loading %1 … %2 of %3").arg(name_, format::bytes(done), format::bytes(total)));
    bar_->setRange(0, ticks);
    bar_->setValue(int(double(done) / double(total) * ticks));
}

} // namespace orrery::ui
