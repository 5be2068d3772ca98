#include "ui/chat/message_view.h"

#include "ui/chat/answer_bar.h"
#include "ui/format.h"
#include "ui/theme.h"

#include <QApplication>
#include <QClipboard>
#include <QDesktopServices>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QToolButton>
#include <QVBoxLayout>
#include <QWheelEvent>

#include <cmath>

namespace orrery::ui {

MessageBody::MessageBody(QWidget* parent) : QTextBrowser(parent), message_(new MessageDocument(this)) {
    setDocument(message_);
    setFrameShape(QFrame::NoFrame);
    setStyleSheet(QStringLiteral("QTextBrowser { background: transparent; border: none; padding: 0; }"));
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setOpenLinks(false);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
    viewport()->setAutoFillBackground(false);
    connect(message_, &QTextDocument::contentsChanged, this, &MessageBody::fit);
    connect(this, &QTextBrowser::anchorClicked, this, &MessageBody::follow);
}

void MessageBody::fit() {
    const int height = int(std::ceil(message_->size().height()));
    if (height == height_)
        return;
    height_ = height;
    updateGeometry();
}

QSize MessageBody::sizeHint() const {
    return {theme::conversationWidth, std::max(height_, 1)};
}

QSize MessageBody::minimumSizeHint() const {
    return {120, std::max(height_, 1)};
}

void MessageBody::resizeEvent(QResizeEvent* event) {
    QTextBrowser::resizeEvent(event);
    fit();
}

void MessageBody::wheelEvent(QWheelEvent* event) {
    event->ignore(); // the conversation scrolls
}

void MessageBody::changeEvent(QEvent* event) {
    QTextBrowser::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        // The application's palette: the body's own has a transparent ground, which is neither light nor
        // dark.
        message_->setStyle(MarkdownStyle::from(QApplication::palette(), QApplication::font()));
}

QVariant MessageBody::loadResource(int, const QUrl&) {
    return {}; // nothing in an answer is ever fetched
}

void MessageBody::follow(const QUrl& link) {
    if (link.scheme() == QStringLiteral("copy"))
        QApplication::clipboard()->setText(message_->code(link.path().toInt()));
    else if (link.scheme() == QStringLiteral("https") || link.scheme() == QStringLiteral("http"))
        QDesktopServices::openUrl(link);
}

MessageView::MessageView(const ChatMessageEntry& message, QWidget* parent)
    : QWidget(parent),
      message_(message),
      author_(new QLabel(message.isAnswer() ? tr("Orrery") : tr("You"))),
      body_(new MessageBody),
      error_(new QLabel),
      status_(new QLabel),
      prefill_(new QProgressBar),
      bar_(new AnswerBar),
      copy_(new QToolButton),
      regenerate_(new QToolButton) {
    setObjectName(message.isAnswer() ? QStringLiteral("answer") : QStringLiteral("question"));
    body_->setAccessibleName(author_->text());
    error_->setObjectName(QStringLiteral("messageError"));
    status_->setObjectName(QStringLiteral("messageStatus"));
    error_->setWordWrap(true);
    error_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    prefill_->setTextVisible(false);
    copy_->setToolTip(tr("Copy"));
    copy_->setAccessibleName(tr("Copy message"));
    copy_->setIcon(theme::icon(QStringLiteral("copy"), theme::Meaning::FaintText));
    regenerate_->setToolTip(tr("Answer again"));
    regenerate_->setAccessibleName(tr("Answer again"));
    regenerate_->setIcon(theme::icon(QStringLiteral("regenerate"), theme::Meaning::FaintText));
    regenerate_->setObjectName(QStringLiteral("regenerateButton"));
    for (QToolButton* button : {copy_, regenerate_}) {
        button->setIconSize(QSize(16, 16));
        button->setAutoRaise(true);
    }

    auto* head = new QHBoxLayout;
    head->setSpacing(theme::space1);
    head->addWidget(author_, 1);
    head->addWidget(copy_);
    auto* foot = new QHBoxLayout;
    foot->setSpacing(theme::space1);
    foot->addWidget(status_, 1);
    foot->addWidget(regenerate_);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(theme::space1);
    column->addLayout(head);
    column->addWidget(body_);
    column->addWidget(error_);
    column->addWidget(prefill_);
    column->addWidget(bar_);
    column->addLayout(foot);

    connect(copy_, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(text()); });
    connect(regenerate_, &QToolButton::clicked, this, &MessageView::regenerateRequested);

    body_->message()->appendText(message_.text);
    if (message_.state == ChatMessageEntry::State::Done)
        body_->message()->finish();
    message_.text.clear();
    regenerate_->hide();
    prefill_->hide();
    if (!message_.isAnswer())
        status_->hide();
    applyColors();
    setMessage(message);
}

void MessageView::appendText(const QString& piece) {
    const bool first = body_->message()->markdown().isEmpty();
    pending_ += piece;
    if (first)
        flush();
}

void MessageView::flush() {
    if (!pending_.isEmpty())
        body_->message()->appendText(std::exchange(pending_, QString()));
    updateStatus();
}

void MessageView::setMessage(const ChatMessageEntry& message) {
    message_ = message;
    message_.text.clear();
    if (message_.state == ChatMessageEntry::State::Done) {
        flush();
        body_->message()->finish();
    }
    error_->setText(sentence(message_.failure));
    error_->setVisible(bool(message_.failure));
    const bool timed = message_.isAnswer() && message_.state == ChatMessageEntry::State::Done &&
                       message_.timings.finished_ns > 0;
    bar_->setVisible(timed && message_.timings.first_token_ns > 0);
    if (timed)
        bar_->setMessage(message_);
    if (message_.state != ChatMessageEntry::State::Waiting)
        prefill_->hide();
    updateStatus();
}

void MessageView::setPrefill(int computed, int total) {
    if (message_.state != ChatMessageEntry::State::Waiting || total <= 0)
        return;
    prefill_->setVisible(true);
    prefill_->setRange(0, total);
    prefill_->setValue(computed);
    status_->setText(
        tr("Reading the prompt: %1 of %2 tokens").arg(format::count(computed), format::count(total)));
}

void MessageView::setCanRegenerate(bool can) {
    regenerate_->setVisible(can);
}

QString MessageView::statusText() const {
    return status_->text();
}

void MessageView::updateStatus() {
    QString text;
    switch (message_.state) {
    case ChatMessageEntry::State::Waiting:
        if (prefill_->isVisibleTo(this))
            return; // it says how far the prompt has been read
        text = tr("Waiting …");
        break;
    case ChatMessageEntry::State::Streaming:
        text = tr("%n tokens", nullptr, message_.tokens);
        break;
    case ChatMessageEntry::State::Done:
        if (message_.isAnswer() && !message_.failure)
            text = AnswerBar::line(message_);
        break;
    }
    status_->setText(text);
}

void MessageView::applyColors() {
    QFont bold = QApplication::font();
    bold.setWeight(QFont::DemiBold);
    author_->setFont(bold);
    status_->setFont(theme::captionFont());
    const auto tint = [this](QLabel* label, theme::Meaning meaning) {
        QPalette colors = palette();
        colors.setColor(QPalette::WindowText, theme::color(meaning, palette()));
        label->setPalette(colors);
    };
    tint(status_, theme::Meaning::FaintText);
    tint(error_, theme::Meaning::Error);
}

void MessageView::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        applyColors();
}

} // namespace orrery::ui
