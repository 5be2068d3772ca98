#include "ui/knobs/knobs_panel.h"

#include "ui/knobs/knob_row.h"
#include "ui/knobs/presets.h"
#include "ui/knobs/section.h"
#include "ui/theme.h"

#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QRegularExpressionValidator>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QToolButton>
#include <QVBoxLayout>

namespace orrery::ui {

namespace {

constexpr int longest_answer_tokens = 1'000'000;
constexpr KnobGroup more_groups[] = {KnobGroup::Truncation, KnobGroup::Repetition, KnobGroup::Dry,
                                     KnobGroup::Mirostat};
const char* const section_keys[] = {"truncationSection", "repetitionSection", "drySection",
                                    "mirostatSection"};

QFrame* makeLine() {
    auto* line = new QFrame;
    line->setObjectName(QStringLiteral("line"));
    line->setFixedHeight(1);
    return line;
}

} // namespace

KnobsPanel::KnobsPanel(QWidget* parent) : QWidget(parent) {
    setObjectName(QStringLiteral("knobsPanel"));

    auto* inner = new QWidget;
    inner->setObjectName(QStringLiteral("knobsInner"));
    auto* column = new QVBoxLayout(inner);
    column->setContentsMargins(theme::space3, theme::space1, theme::space3, theme::space4);
    column->setSpacing(theme::space2);

    column->addWidget(makeHeader());
    std::vector<Knob> knobs = makeKnobs();
    for (const Knob& knob : knobs)
        if (knob.group == KnobGroup::Main)
            addRow(column, new KnobRow(knob));
    column->addWidget(makeLine());
    column->addWidget(makeAnswerPart());
    column->addWidget(makeLine());
    column->addWidget(makePromptPart());
    column->addWidget(makeLine());
    for (size_t i = 0; i < std::size(more_groups); ++i) {
        auto* section = new Section(knobGroupTitle(more_groups[i]), QString::fromLatin1(section_keys[i]));
        for (const Knob& knob : knobs)
            if (knob.group == more_groups[i])
                addRow(section->body(), new KnobRow(knob));
        column->addWidget(section);
    }
    column->addStretch(1);

    auto* scroll = new QScrollArea;
    scroll->setObjectName(QStringLiteral("knobsScroll"));
    scroll->setWidget(inner);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(0, 0, 0, 0);
    outer->addWidget(scroll);
    setMinimumWidth(inner->minimumSizeHint().width() + 12);
    refresh();
}

QWidget* KnobsPanel::makeHeader() {
    auto* header = new QWidget;
    auto* row = new QHBoxLayout(header);
    row->setContentsMargins(0, 0, 0, 0);
    presets_ = new QToolButton;
    presets_->setObjectName(QStringLiteral("presets"));
    presets_->setText(tr("Presets"));
    presets_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    presets_->setIcon(theme::icon(QStringLiteral("sliders"), theme::Meaning::FaintText));
    presets_->setIconSize({16, 16});
    presets_->setPopupMode(QToolButton::InstantPopup);
    presets_->setToolTip(tr("Settings of the sampler that go well together"));
    presets_->setFocusPolicy(Qt::StrongFocus);
    auto* menu = new QMenu(presets_);
    menu->setToolTipsVisible(true);
    const std::vector<Preset> presets = builtInPresets();
    for (size_t i = 0; i < presets.size(); ++i) {
        QAction* action = menu->addAction(presets[i].name, this, [this, i] { applyPreset(int(i)); });
        action->setToolTip(presets[i].explanation);
    }
    presets_->setMenu(menu);
    row->addWidget(presets_);
    row->addStretch(1);
    return header;
}

QWidget* KnobsPanel::makeAnswerPart() {
    auto* part = new QWidget;
    auto* grid = new QGridLayout(part);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(theme::space1);
    grid->setVerticalSpacing(theme::space2);
    grid->setColumnStretch(0, 1);

    maxTokens_ = new QSpinBox;
    maxTokens_->setObjectName(QStringLiteral("maxTokens"));
    maxTokens_->setButtonSymbols(QAbstractSpinBox::NoButtons);
    maxTokens_->setRange(0, longest_answer_tokens);
    maxTokens_->setSingleStep(64);
    maxTokens_->setSpecialValueText(tr("no limit"));
    maxTokens_->setGroupSeparatorShown(true);
    maxTokens_->setKeyboardTracking(false);
    maxTokens_->setAlignment(Qt::AlignRight);
    maxTokens_->setFont(theme::numberFont());
    maxTokens_->setAccessibleName(tr("Longest answer, tokens"));
    maxTokens_->setToolTip(tr("%1 0 lets it go on until the context is full. In force from the next answer.")
                               .arg(meaning(orrery::parameter("max_tokens"))));
    auto* maxLabel = new QLabel(tr("Longest answer"));
    maxLabel->setBuddy(maxTokens_);
    maxLabel->setToolTip(maxTokens_->toolTip());

    seed_ = new QLineEdit;
    seed_->setObjectName(QStringLiteral("seed"));
    seed_->setPlaceholderText(tr("fresh"));
    seed_->setAlignment(Qt::AlignRight);
    seed_->setFont(theme::numberFont());
    seed_->setAccessibleName(tr("Seed"));
    seed_->setValidator(
        new QRegularExpressionValidator(QRegularExpression(QStringLiteral("[0-9]{0,20}")), seed_));
    seedLabel_ = new QLabel(tr("Seed"));
    seedLabel_->setBuddy(seed_);

    const int width =
        std::max(96, maxTokens_->fontMetrics().horizontalAdvance(QStringLiteral("0,000,000")) + 24);
    maxTokens_->setFixedWidth(width);
    seed_->setFixedWidth(width);
    grid->addWidget(maxLabel, 0, 0);
    grid->addWidget(maxTokens_, 0, 1);
    grid->addWidget(seedLabel_, 1, 0);
    grid->addWidget(seed_, 1, 1);

    connect(maxTokens_, &QSpinBox::valueChanged, this, [this](int value) {
        settings_.maxTokens = value == 0 ? -1 : value;
        changed();
    });
    connect(seed_, &QLineEdit::textEdited, this, [this](const QString& text) {
        bool fits = false;
        const quint64 value = text.toULongLong(&fits);
        settings_.sampling.seed = fits ? std::optional<uint64_t>(value) : std::nullopt;
        changed();
    });
    return part;
}

QWidget* KnobsPanel::makePromptPart() {
    auto* part = new QWidget;
    auto* column = new QVBoxLayout(part);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(theme::space1);
    systemPrompt_ = new QPlainTextEdit;
    systemPrompt_->setObjectName(QStringLiteral("systemPrompt"));
    systemPrompt_->setPlaceholderText(tr("Who should answer, and how?"));
    systemPrompt_->setTabChangesFocus(true);
    systemPrompt_->setAccessibleName(tr("System prompt"));
    systemPrompt_->setToolTip(tr("Stands before the conversation. In force from the next answer."));
    systemPrompt_->setFixedHeight(systemPrompt_->fontMetrics().lineSpacing() * 4 + 16);
    auto* label = new QLabel(tr("System prompt"));
    label->setBuddy(systemPrompt_);
    label->setToolTip(systemPrompt_->toolTip());
    column->addWidget(label);
    column->addWidget(systemPrompt_);
    connect(systemPrompt_, &QPlainTextEdit::textChanged, this, [this] {
        settings_.systemPrompt = systemPrompt_->toPlainText();
        changed();
    });
    return part;
}

void KnobsPanel::addRow(QVBoxLayout* column, KnobRow* row) {
    rows_.push_back(row);
    column->addWidget(row);
    connect(row, &KnobRow::turned, this, [this, row](double value) {
        row->knob().parameter->set(settings_.sampling, value);
        changed();
    });
}

void KnobsPanel::applyPreset(int index) {
    const std::optional<uint64_t> seed = settings_.sampling.seed;
    settings_.sampling = builtInPresets()[size_t(index)].params;
    settings_.sampling.seed = seed;
    changed();
}

void KnobsPanel::setSettings(const ChatSettings& settings) {
    settings_ = settings;
    refresh();
}

/// The user changed something: what has an effect may be other knobs now.
void KnobsPanel::changed() {
    refresh();
    emit settingsChanged(settings_);
}

void KnobsPanel::refresh() {
    for (KnobRow* row : rows_)
        row->display(settings_.sampling);
    {
        const QSignalBlocker block(maxTokens_);
        maxTokens_->setValue(std::max(0, settings_.maxTokens));
    }
    const QString seed = settings_.sampling.seed ? QString::number(*settings_.sampling.seed) : QString();
    if (!seed_->hasFocus() || seed_->text().toULongLong() != settings_.sampling.seed.value_or(0))
        seed_->setText(seed);
    const QString idle = seedIdleBecause(settings_.sampling);
    seed_->setEnabled(idle.isEmpty());
    seedLabel_->setEnabled(idle.isEmpty());
    QString tip = tr("%1 Empty draws a fresh one for each answer.").arg(meaning(orrery::parameter("seed")));
    if (!idle.isEmpty())
        tip += QLatin1Char('\n') + tr("No effect now. %1").arg(idle);
    seed_->setToolTip(tip);
    seedLabel_->setToolTip(tip);
    if (systemPrompt_->toPlainText() != settings_.systemPrompt) {
        const QSignalBlocker block(systemPrompt_);
        systemPrompt_->setPlainText(settings_.systemPrompt);
    }
}

} // namespace orrery::ui
