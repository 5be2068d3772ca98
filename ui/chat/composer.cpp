#include "ui/chat/composer.h"

#include "ui/theme.h"

#include <QAbstractTextDocumentLayout>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QMimeData>

#include <algorithm>

namespace orrery::ui {

namespace {
constexpr int max_lines = 10;
}

Composer::Composer(QWidget* parent) : QPlainTextEdit(parent) {
    setTabChangesFocus(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    document()->setDocumentMargin(theme::space1);
    connect(document()->documentLayout(), &QAbstractTextDocumentLayout::documentSizeChanged, this,
            &Composer::fit);
    fit();
}

QSize Composer::sizeHint() const {
    return {theme::conversationWidth, height()};
}

void Composer::fit() {
    // A plain text document measures its height in lines.
    const int lines = std::clamp(int(document()->size().height()), 1, max_lines);
    // While all lines are seen there is nothing to scroll, even where rounding makes a difference of a pixel.
    setVerticalScrollBarPolicy(lines < max_lines ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
    const int frame = height() - viewport()->height();
    const int wanted = fontMetrics().lineSpacing() * lines + int(2 * document()->documentMargin()) +
                       std::clamp(frame, 2, 24);
    if (wanted != height())
        setFixedHeight(wanted);
}

void Composer::resizeEvent(QResizeEvent* event) {
    QPlainTextEdit::resizeEvent(event);
    fit();
}

void Composer::inputMethodEvent(QInputMethodEvent* event) {
    composing_ = !event->preeditString().isEmpty();
    QPlainTextEdit::inputMethodEvent(event);
}

void Composer::keyPressEvent(QKeyEvent* event) {
    const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
    if (enter && composing_)
        return event->ignore();
    if (enter && !(event->modifiers() & (Qt::ShiftModifier | Qt::AltModifier)))
        return emit sendRequested();
    if (enter)
        return insertPlainText(QStringLiteral("\n"));
    if (event->key() == Qt::Key_Escape && !composing_)
        return emit stopRequested();
    QPlainTextEdit::keyPressEvent(event);
}

void Composer::insertFromMimeData(const QMimeData* source) {
    if (source->hasText())
        insertPlainText(source->text());
}

} // namespace orrery::ui
