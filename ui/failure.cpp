#include "ui/failure.h"

#include "ui/format.h"

#include <QCoreApplication>
#include <QFileInfo>

namespace orrery::ui {

namespace {

class Words {
    Q_DECLARE_TR_FUNCTIONS(Failures)
};

QString withDetail(const QString& sentence, const QString& detail) {
    return detail.isEmpty() ? sentence : sentence + QLatin1Char(' ') + detail;
}

} // namespace

QString sentence(const LoadFailure& failure) {
    const QString name = QFileInfo(failure.path).fileName();
    switch (failure.code) {
    case LoadFailure::Code::Missing:
        return Words::tr("There is no file %1. If '%2' was moved, open it from its new place.")
            .arg(failure.path, name);
    case LoadFailure::Code::NotReadable:
        return Words::tr("You may not read %1. Change the permissions of '%2', or open another model.")
            .arg(failure.path, name);
    case LoadFailure::Code::NoMemory:
        return withDetail(
            Words::tr("There is not enough memory for '%1'. Close other programs, or open a smaller model.")
                .arg(name),
            failure.detail);
    case LoadFailure::Code::NotUsable:
        break;
    }
    return withDetail(Words::tr("'%1' was not opened.").arg(name), failure.detail);
}

QString sentence(const AnswerFailure& failure) {
    switch (failure.code) {
    case AnswerFailure::Code::None:
        break;
    case AnswerFailure::Code::NoModel:
        return Words::tr("No model is open, so there is nothing to answer with. Open one with File, Open "
                         "model.");
    case AnswerFailure::Code::ModelNotLoaded:
        return Words::tr("The model was not loaded, so there is nothing to answer with. Open another model, "
                         "then ask again.");
    case AnswerFailure::Code::NoChatTemplate:
        return Words::tr("%1 has no chat template: it can continue texts, but not answer in a chat. Open a "
                         "model that was made for chats.")
            .arg(failure.model);
    case AnswerFailure::Code::TemplateRefused:
        return withDetail(Words::tr("The chat template of %1 refused this conversation.").arg(failure.model),
                          failure.detail);
    case AnswerFailure::Code::NoMemory:
        return Words::tr("There was not enough memory to read the conversation. Close other programs, then "
                         "ask again.");
    case AnswerFailure::Code::PromptTooLong:
        return Words::tr("This conversation has %1 tokens; the model's context holds %2, and the answer "
                         "needs some of them. Shorten the message, or begin a new chat.")
            .arg(format::count(failure.promptTokens), format::count(failure.contextTokens));
    case AnswerFailure::Code::Refused:
        return withDetail(Words::tr("The engine refused the request."), failure.detail);
    case AnswerFailure::Code::EngineFailed:
        return withDetail(Words::tr("The engine failed at this answer."), failure.detail);
    }
    return {};
}

QString endWord(FinishReason reason) {
    switch (reason) {
    case FinishReason::stop_string:
        return Words::tr("stop string");
    case FinishReason::length:
        return Words::tr("length limit reached");
    case FinishReason::context_full:
        return Words::tr("context full");
    case FinishReason::cancelled:
        return Words::tr("stopped");
    case FinishReason::time_limit:
        return Words::tr("time limit reached");
    case FinishReason::none:
    case FinishReason::stop_token:
    case FinishReason::disconnected:
    case FinishReason::rejected:
    case FinishReason::error:
        break;
    }
    return {};
}

} // namespace orrery::ui
