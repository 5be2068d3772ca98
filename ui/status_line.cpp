#include "ui/status_line.h"

#include "ui/chat/chat_model.h"
#include "ui/format.h"
#include "ui/theme.h"

#include <QEvent>
#include <QLabel>

namespace orrery::ui {

namespace {
/// The speed shown is that of the last second of work.
constexpr int64_t window_ns = 1'000'000'000;
} // namespace

StatusLine::StatusLine(EngineSession* session, QWidget* parent)
    : QStatusBar(parent),
      session_(session),
      device_(new QLabel),
      model_(new QLabel),
      context_(new QLabel),
      rate_(new QLabel) {
    setObjectName(QStringLiteral("statusLine"));
    setSizeGripEnabled(false);
    const std::pair<QLabel*, QString> labels[] = {{device_, QStringLiteral("statusDevice")},
                                                  {model_, QStringLiteral("statusModel")},
                                                  {context_, QStringLiteral("statusContext")},
                                                  {rate_, QStringLiteral("statusRate")}};
    for (const auto& [label, name] : labels) {
        label->setObjectName(name);
        label->setFont(theme::numberFont());
        label->setContentsMargins(theme::space2, 2, theme::space2, 2);
    }
    device_->setTextFormat(Qt::RichText);
    addWidget(device_);
    addWidget(model_);
    addPermanentWidget(context_);
    addPermanentWidget(rate_);
    context_->setToolTip(
        tr("Tokens of this chat that the model has before it, of the most that it can have."));
    rate_->setToolTip(tr("New tokens per second, all chats together, over the last second of work."));

    connect(session, &EngineSession::reports, this, &StatusLine::onReports);
    connect(session, &EngineSession::activityChanged, this, &StatusLine::showDevice);
    const auto anew = [this] {
        recent_.clear();
        rate_->clear();
        showModel();
        showDevice();
        showContext();
    };
    connect(session, &EngineSession::modelLoaded, this, anew);
    connect(session, &EngineSession::modelUnloaded, this, anew);
    connect(session, &EngineSession::stateChanged, this, &StatusLine::showModel);
    anew();
}

void StatusLine::setChat(const ChatModel* chat) {
    disconnect(chatConnection_);
    chat_ = chat;
    contextTokens_ = 0;
    if (chat_)
        chatConnection_ = connect(chat_, &ChatModel::answerFinished, this, [this] { showContext(); });
    showContext();
}

void StatusLine::onReports(const std::vector<StepReport>& reports) {
    for (const StepReport& report : reports) {
        recent_.push_back({report.start_ns, report.start_ns + report.duration_ns, report.generated_tokens});
        for (const ReportRow& row : report.rows)
            if (chat_ && row.request != 0 && row.request == chat_->request())
                contextTokens_ = row.context;
    }
    while (!recent_.empty() && recent_.back().end_ns - recent_.front().start_ns > window_ns)
        recent_.pop_front();
    int64_t generated = 0;
    for (const Step& step : recent_)
        generated += step.generated;
    if (recent_.size() > 1 && generated > 0) {
        const double seconds = double(recent_.back().end_ns - recent_.front().start_ns) / 1e9;
        rate_->setText(format::rate(double(generated) / seconds));
    }
    showContext();
}

void StatusLine::showDevice() {
    const ModelInfo& info = session_->model();
    const bool working = session_->hasModel() && session_->activeRequests() > 0;
    const QColor dot =
        theme::color(working ? theme::Meaning::Decode : theme::Meaning::FaintText, QWidget::palette());
    QString text = tr("no model");
    if (session_->hasModel())
        text =
            info.threads > 0 ? tr("%1, %n thread(s)", nullptr, info.threads).arg(info.device) : info.device;
    device_->setText(QStringLiteral("<span style=\"color:%1\">%2</span>&nbsp; %3")
                         .arg(dot.name(), session_->hasModel() ? QStringLiteral("●") : QStringLiteral("○"),
                              text.toHtmlEscaped()));
    device_->setAccessibleName(tr("Device: %1").arg(text));
    device_->setToolTip(info.deviceReason);
}

void StatusLine::showModel() {
    const ModelInfo& info = session_->model();
    model_->setText(QStringList{info.name, info.format}.join(QLatin1Char(' ')).trimmed());
    QString tip;
    if (session_->hasModel()) {
        if (!info.title.isEmpty())
            tip = info.title + QLatin1Char('\n');
        tip += tr("%1\n%2 architecture, %3 of weights, vocabulary of %4 tokens")
                   .arg(info.path, info.architecture, format::bytes(info.weightBytes),
                        format::count(info.vocabularyTokens));
    }
    model_->setToolTip(tip);
}

void StatusLine::showContext() {
    if (!session_->hasModel()) {
        context_->clear();
        return;
    }
    int used = 0;
    if (chat_ && chat_->busy())
        used = contextTokens_;
    else if (chat_ && !chat_->messages().empty())
        used =
            chat_->messages().back().usage.prompt_tokens + chat_->messages().back().usage.completion_tokens;
    context_->setText(
        tr("context %1 of %2").arg(format::count(used), format::count(session_->model().contextTokens)));
}

void StatusLine::changeEvent(QEvent* event) {
    QStatusBar::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        showDevice();
}

} // namespace orrery::ui
