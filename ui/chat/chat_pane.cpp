#include "ui/chat/chat_pane.h"

#include "ui/chat/composer.h"
#include "ui/chat/conversation_view.h"
#include "ui/theme.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QPushButton>
#include <QVBoxLayout>

namespace orrery::ui {

ChatPane::ChatPane(EngineSession* session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      view_(new ConversationView(session->clock())),
      composer_(new Composer),
      button_(new QPushButton),
      open_(new QPushButton(tr("Open a model…"))) {
    setObjectName(QStringLiteral("chatPane"));
    composer_->setObjectName(QStringLiteral("composer"));
    composer_->setAccessibleName(tr("Message"));
    composer_->setPlaceholderText(tr("Message"));
    button_->setObjectName(QStringLiteral("sendButton"));
    button_->setDefault(true);
    button_->setIconSize(QSize(16, 16));
    open_->setObjectName(QStringLiteral("openModelButton"));

    // The field stands under the column of messages and is as wide.
    auto* field = new QWidget;
    field->setMaximumWidth(theme::conversationWidth);
    auto* row = new QHBoxLayout(field);
    row->setContentsMargins(theme::space4, 0, theme::space4, theme::space4);
    row->setSpacing(theme::space2);
    row->addWidget(composer_, 1);
    row->addWidget(button_, 0, Qt::AlignBottom);
    auto* centred = new QHBoxLayout;
    centred->addStretch(1);
    centred->addWidget(field, 1000);
    centred->addStretch(1);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(theme::space2);
    column->addWidget(view_, 1);
    column->addWidget(open_, 0, Qt::AlignHCenter);
    column->addLayout(centred);
    setTabOrder(view_, composer_);
    setTabOrder(composer_, button_);

    connect(composer_, &Composer::sendRequested, this, &ChatPane::send);
    connect(composer_, &Composer::stopRequested, this, &ChatPane::stop);
    connect(composer_, &Composer::textChanged, this, [this] {
        if (chat_)
            chat_->setDraft(composer_->toPlainText());
        updateButton();
    });
    connect(button_, &QPushButton::clicked, this, [this] { chat_ && chat_->busy() ? stop() : send(); });
    connect(open_, &QPushButton::clicked, this, &ChatPane::openModelRequested);
    connect(view_, &ConversationView::regenerateRequested, this, &ChatPane::regenerate);
    connect(session_, &EngineSession::reports, this, &ChatPane::onReports);
    connect(session_, &EngineSession::stateChanged, this, &ChatPane::updateEmptyText);
    connect(session_, &EngineSession::modelLoaded, this, &ChatPane::updateEmptyText);
    updateEmptyText();
    updateButton();
}

void ChatPane::setChat(ChatModel* chat) {
    if (chat_)
        disconnect(chat_, nullptr, this, nullptr);
    chat_ = chat;
    view_->setChat(chat);
    composer_->setPlainText(chat_ ? chat_->draft() : QString());
    composer_->moveCursor(QTextCursor::End);
    if (chat_)
        connect(chat_, &ChatModel::busyChanged, this, &ChatPane::updateButton);
    updateButton();
}

void ChatPane::focusComposer() {
    composer_->setFocus(Qt::OtherFocusReason);
}

void ChatPane::send() {
    if (!chat_ || chat_->busy() || composer_->toPlainText().trimmed().isEmpty())
        return;
    chat_->send(composer_->toPlainText());
    composer_->clear();
}

void ChatPane::stop() {
    if (chat_)
        chat_->stop();
}

void ChatPane::regenerate() {
    if (chat_)
        chat_->regenerate();
}

void ChatPane::updateButton() {
    const bool busy = chat_ && chat_->busy();
    button_->setText(busy ? tr("Stop") : tr("Send"));
    button_->setToolTip(busy ? tr("Ends the answer; what has been written stays (Esc)")
                             : tr("Enter sends, Shift+Enter breaks the line"));
    button_->setEnabled(busy || (chat_ && !composer_->toPlainText().trimmed().isEmpty()));
}

void ChatPane::updateEmptyText() {
    const bool empty = session_->state() == EngineSession::State::Empty;
    open_->setVisible(empty);
    if (empty)
        view_->setEmptyText(tr("No model is loaded. Open a .gguf file, or drag one here."));
    else if (!session_->hasModel())
        view_->setEmptyText(tr("The model is loading. You can write already."));
    else
        view_->setEmptyText(tr("Ask %1 something.").arg(session_->model().name));
}

void ChatPane::onReports(const std::vector<StepReport>& reports) {
    if (!chat_ || !chat_->busy())
        return;
    for (auto report = reports.rbegin(); report != reports.rend(); ++report)
        for (const ReportRow& row : report->rows)
            if (row.request == chat_->request() && row.context < row.prompt_tokens)
                return view_->setPrefill(row.context, row.prompt_tokens);
}

void ChatPane::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::LanguageChange)
        updateEmptyText();
}

} // namespace orrery::ui
