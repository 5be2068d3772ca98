#include "ui/charts/chart_strip.h"

#include "ui/frame_clock.h"

#include <QHBoxLayout>

namespace orrery::ui {

namespace {

using theme::Meaning;
constexpr double ms = 1e-6;
/// A repaint may take one part in so many of one core's time.
constexpr qint64 paint_share = 20;

ChartSpec stepCostSpec() {
    ChartSpec spec;
    spec.id = QStringLiteral("stepCost");
    spec.title = ChartStrip::tr("Where did each step's time go?");
    spec.unit = QStringLiteral("ms");
    spec.emptyText = ChartStrip::tr("The time of each step of the engine, by phase.");
    // All but the model's own arithmetic is overhead, in shades of grey.
    spec.bands = {
        {ChartStrip::tr("Forward"),
         ChartStrip::tr("The model's own arithmetic: every layer for every token of the batch."),
         Meaning::Decode, 1.0, [](const StepSample& s) { return double(s.forward_ns) * ms; }},
        {ChartStrip::tr("Sample"), ChartStrip::tr("Choosing the next token from the logits."), Meaning::Text,
         0.7, [](const StepSample& s) { return double(s.sample_ns) * ms; }},
        {ChartStrip::tr("Schedule"),
         ChartStrip::tr("Deciding which sequence gets how many tokens, and its blocks."), Meaning::FaintText,
         0.85, [](const StepSample& s) { return double(s.schedule_ns) * ms; }},
        {ChartStrip::tr("Prepare"), ChartStrip::tr("Laying out the batch for the device."),
         Meaning::FaintText, 0.6, [](const StepSample& s) { return double(s.prepare_ns) * ms; }},
        {ChartStrip::tr("Publish"), ChartStrip::tr("Turning tokens into text and handing it out."),
         Meaning::FaintText, 0.4, [](const StepSample& s) { return double(s.publish_ns) * ms; }},
    };
    return spec;
}

ChartSpec kvBlocksSpec() {
    ChartSpec spec;
    spec.id = QStringLiteral("kvBlocks");
    spec.title = ChartStrip::tr("How are the KV blocks used?");
    spec.unit = ChartStrip::tr("blocks");
    spec.emptyText =
        ChartStrip::tr("The blocks of the key/value cache after each step: held, cached and free.");
    // The free blocks are hidden at first: a pool holds many chats, and one of them would be a hair's
    // breadth.
    spec.bands = {
        {ChartStrip::tr("Held"), ChartStrip::tr("In use by a sequence."), Meaning::Decode, 1.0,
         [](const StepSample& s) { return double(s.held); }},
        {ChartStrip::tr("Cached"),
         ChartStrip::tr("Not in use, but kept: a prompt with the same beginning starts from here."),
         Meaning::Reused, 1.0, [](const StepSample& s) { return double(s.cached); }},
        {ChartStrip::tr("Free"), ChartStrip::tr("Without content."), Meaning::Free, 1.0,
         [](const StepSample& s) { return double(s.free); }, false},
    };
    return spec;
}

ChartSpec batchSpec() {
    ChartSpec spec;
    spec.id = QStringLiteral("batch");
    spec.title = ChartStrip::tr("What was in each batch?");
    spec.unit = ChartStrip::tr("tokens");
    spec.emptyText =
        ChartStrip::tr("The tokens of each step: prompts that are read, answers that are written.");
    spec.bands = {
        {ChartStrip::tr("Decode"), ChartStrip::tr("Tokens of answers: one for each sequence that writes."),
         Meaning::Decode, 1.0, [](const StepSample& s) { return double(s.decode); }},
        {ChartStrip::tr("Prefill"), ChartStrip::tr("Tokens of prompts that are read."), Meaning::Prefill, 1.0,
         [](const StepSample& s) { return double(s.prefill); }},
        {ChartStrip::tr("Recomputed"),
         ChartStrip::tr("Tokens that were computed before, lost to a preemption, and computed again."),
         Meaning::Recomputed, 1.0, [](const StepSample& s) { return double(s.recomputed); }},
    };
    return spec;
}

} // namespace

ChartStrip::ChartStrip(EngineSession* session, QWidget* parent) : QWidget(parent), session_(session) {
    setObjectName(QStringLiteral("chartStrip"));
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(theme::space4, theme::space2, theme::space4, theme::space2);
    row->setSpacing(theme::space6);
    charts_ = {new StepChart(stepCostSpec(), &history_), new StepChart(kvBlocksSpec(), &history_),
               new StepChart(batchSpec(), &history_)};
    for (StepChart* chart : charts_) {
        row->addWidget(chart, 1);
        connect(chart, &StepChart::spanChanged, this, [this](quint64 steps) {
            for (StepChart* other : charts_)
                other->setSpan(steps);
        });
    }
    connect(session, &EngineSession::reports, this, &ChartStrip::addReports);
    connect(session, &EngineSession::modelLoaded, this, &ChartStrip::clear);
    connect(session->clock(), &FrameClock::tick, this, &ChartStrip::onTick);
}

void ChartStrip::addReports(const std::vector<StepReport>& reports, quint64) {
    for (const StepReport& report : reports)
        history_.add(report);
    if (!reports.empty())
        setStale(true);
}

void ChartStrip::clear() {
    history_.clear();
    refresh();
}

/// The clock runs until all is drawn, however long ago the last report came. Pictures that are hidden are
/// drawn when they are shown.
void ChartStrip::setStale(bool stale) {
    stale_ = stale;
    session_->clock()->setBusy(this, stale_ && isVisible());
}

void ChartStrip::onTick(qint64 now_ns) {
    if (!stale_ || !isVisible())
        return;
    for (StepChart* chart : charts_)
        cost_ns_ += chart->takeCostNs();
    if (now_ns - refreshed_ns_ < cost_ns_ * paint_share)
        return;
    refreshed_ns_ = now_ns;
    refresh();
}

void ChartStrip::refresh() {
    setStale(false);
    cost_ns_ = 0;
    for (StepChart* chart : charts_)
        chart->refresh();
}

void ChartStrip::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    refresh();
}

void ChartStrip::hideEvent(QHideEvent* event) {
    QWidget::hideEvent(event);
    setStale(stale_);
}

} // namespace orrery::ui
