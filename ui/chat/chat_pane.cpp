#include "ui/chat/chat_pane.h"

#include "ui/theme.h"

#include <QHBoxLayout>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QShortcut>
#include <QVBoxLayout>

namespace orrery::ui {

ChatPane::ChatPane(EngineSession* session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      view_(new QPlainTextEdit),
      composer_(new QPlainTextEdit),
      button_(new QPushButton(tr("Send"))) {
    setObjectName(QStringLiteral("chatPane"));
    view_->setObjectName(QStringLiteral("conversation"));
    view_->setReadOnly(true);
    view_->setAccessibleName(tr("Conversation"));
    composer_->setObjectName(QStringLiteral("composer"));
    composer_->setAccessibleName(tr("Message"));
    composer_->setPlaceholderText(tr("Message"));
    composer_->setTabChangesFocus(true);
    composer_->setFixedHeight(72);
    button_->setObjectName(QStringLiteral("sendButton"));

    auto* bottom = new QHBoxLayout;
    bottom->addWidget(composer_, 1);
    bottom->addWidget(button_, 0, Qt::AlignBottom);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(theme::space4, theme::space4, theme::space4, theme::space4);
    column->addWidget(view_, 1);
    column->addLayout(bottom);

    connect(button_, &QPushButton::clicked, this, [this] { chat_ && chat_->busy() ? stop() : send(); });
    connect(composer_, &QPlainTextEdit::textChanged, this, [this] {
        if (chat_)
            chat_->setDraft(composer_->toPlainText());
    });
    connect(new QShortcut(QKeySequence(Qt::CTRL | Qt::Key_Return), this), &QShortcut::activated, this,
            &ChatPane::send);
}

void ChatPane::setChat(ChatModel* chat) {
    if (chat_)
        disconnect(chat_, nullptr, this, nullptr);
    chat_ = chat;
    composer_->setPlainText(chat_ ? chat_->draft() : QString());
    if (chat_) {
        connect(chat_, &ChatModel::dataChanged, this, &ChatPane::refresh);
        connect(chat_, &ChatModel::rowsInserted, this, &ChatPane::refresh);
        connect(chat_, &ChatModel::rowsRemoved, this, &ChatPane::refresh);
        connect(chat_, &ChatModel::busyChanged, this, &ChatPane::refresh);
    }
    refresh();
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

void ChatPane::refresh() {
    QString text;
    if (chat_)
        for (const ChatMessageEntry& message : chat_->messages())
            text += (message.isAnswer() ? tr("Answer: %1") : tr("You: %1"))
                        .arg(message.error.isEmpty() ? message.text : message.error) +
                    QStringLiteral("\n\n");
    view_->setPlainText(text);
    button_->setText(chat_ && chat_->busy() ? tr("Stop") : tr("Send"));
}

} // namespace orrery::ui
