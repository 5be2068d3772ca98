#include "ui/notice_bar.h"

#include "ui/theme.h"

#include <QAccessible>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>

namespace orrery::ui {

NoticeBar::NoticeBar(QWidget* parent)
    : QFrame(parent), mark_(new QLabel), text_(new QLabel), close_(new QToolButton) {
    setObjectName(QStringLiteral("noticeBar"));
    drawMark();
    text_->setObjectName(QStringLiteral("noticeText"));
    text_->setWordWrap(true);
    text_->setTextFormat(Qt::PlainText);
    text_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    close_->setObjectName(QStringLiteral("noticeClose"));
    close_->setIcon(theme::icon(QStringLiteral("close")));
    close_->setIconSize({16, 16});
    close_->setToolTip(tr("Close"));
    close_->setAccessibleName(tr("Close the message"));
    close_->setFocusPolicy(Qt::StrongFocus);

    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(theme::space3, theme::space2, theme::space2, theme::space2);
    row->setSpacing(theme::space2);
    row->addWidget(mark_, 0, Qt::AlignTop);
    row->addWidget(text_, 1);
    row->addWidget(close_, 0, Qt::AlignTop);
    connect(close_, &QToolButton::clicked, this, &NoticeBar::dismiss);
    hide();
}

/// A label keeps the picture it was given: it is given another when the colours change.
void NoticeBar::drawMark() {
    mark_->setPixmap(theme::icon(QStringLiteral("warning"), theme::Meaning::Error)
                         .pixmap(QSize(theme::iconSize, theme::iconSize), devicePixelRatioF()));
}

void NoticeBar::changeEvent(QEvent* event) {
    QFrame::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        drawMark();
}

void NoticeBar::showError(const QString& sentence) {
    text_->setText(sentence);
    setAccessibleName(sentence);
    show();
    QAccessibleEvent event(this, QAccessible::Alert);
    QAccessible::updateAccessibility(&event);
}

QString NoticeBar::text() const {
    return text_->text();
}

void NoticeBar::dismiss() {
    hide();
}

} // namespace orrery::ui
