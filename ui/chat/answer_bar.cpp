#include "ui/chat/answer_bar.h"

#include "ui/format.h"
#include "ui/theme.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>

namespace orrery::ui {

namespace {
constexpr int bar_height = 3;
}

AnswerBar::AnswerBar(QWidget* parent) : QWidget(parent) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

QSize AnswerBar::sizeHint() const {
    return {120, bar_height};
}

void AnswerBar::setMessage(const ChatMessageEntry& message) {
    const Timings& t = message.timings;
    wait_ns_ = t.first_scheduled_ns;
    prefill_ns_ = std::max<int64_t>(0, t.first_token_ns - t.first_scheduled_ns);
    decode_ns_ = t.first_token_ns > 0 ? std::max<int64_t>(0, t.finished_ns - t.first_token_ns) : 0;
    setAccessibleName(line(message));
    update();
}

QString AnswerBar::line(const ChatMessageEntry& message) {
    QStringList parts;
    // Where the engine went away before it could count, what has come counts.
    const int tokens = std::max(message.usage.completion_tokens, message.tokens);
    parts << tr("%n tokens", nullptr, tokens);
    const qint64 decode_ns = message.timings.finished_ns - message.timings.first_token_ns;
    if (tokens > 1 && decode_ns > 0)
        parts << format::rate((tokens - 1) * 1e9 / double(decode_ns));
    if (message.timings.first_token_ns > 0)
        parts << tr("first after %1").arg(format::duration(message.timings.first_token_ns));
    if (message.usage.cached_tokens > 0)
        parts << tr("%1 of %2 prompt tokens from the cache")
                     .arg(format::count(message.usage.cached_tokens),
                          format::count(message.usage.prompt_tokens));
    if (const QString end = endWord(message.finish); !end.isEmpty())
        parts << end;
    return parts.join(QStringLiteral(" · "));
}

void AnswerBar::paintEvent(QPaintEvent*) {
    const qint64 all = wait_ns_ + prefill_ns_ + decode_ns_;
    if (all <= 0)
        return;
    QPainter painter(this);
    const auto x = [&](qint64 ns) { return int(double(ns) / double(all) * width()); };
    const int a = x(wait_ns_);
    const int b = x(wait_ns_ + prefill_ns_);
    painter.fillRect(QRect(0, 0, a, bar_height), theme::color(theme::Meaning::Free, palette()));
    painter.fillRect(QRect(a, 0, b - a, bar_height), theme::color(theme::Meaning::Prefill, palette()));
    painter.fillRect(QRect(b, 0, width() - b, bar_height), theme::color(theme::Meaning::Decode, palette()));
}

bool AnswerBar::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        QToolTip::showText(
            help->globalPos(),
            tr("Waiting %1, prefill %2, decode %3")
                .arg(format::duration(wait_ns_), format::duration(prefill_ns_), format::duration(decode_ns_)),
            this);
        return true;
    }
    return QWidget::event(event);
}

} // namespace orrery::ui
