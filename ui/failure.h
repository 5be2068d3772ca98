// What can go wrong, as a code with parameters, and the sentence about it in the user's language.
//
// Sentences are made where they are shown, so that they follow the language. Where the engine gives a
// sentence of its own, it stands behind ours as the detail.
#pragma once

#include "engine/request.h"

#include <QString>

namespace orrery::ui {

/// Why a model was not loaded.
struct LoadFailure {
    enum class Code {
        Missing,     ///< there is no such file or folder (any more)
        NotReadable, ///< this user may not read it
        NoMemory,    ///< there is not enough memory for it now
        NotUsable,   ///< it is not a model that can be run: `detail` says why
    };
    Code code = Code::NotUsable;
    QString path = {};
    QString detail = {}; ///< the engine's sentence; may be empty
};

/// Why a request brought no answer, or only a part of it.
struct AnswerFailure {
    enum class Code {
        None,
        NoModel,         ///< none is open
        ModelNotLoaded,  ///< the one that the request waited for was not loaded
        NoChatTemplate,  ///< `model` can only continue texts
        TemplateRefused, ///< the template of `model` refused the conversation: `detail` says why
        NoMemory,        ///< there was none to prepare the prompt
        PromptTooLong,   ///< `promptTokens` are more than fit `contextTokens`
        Refused,         ///< the engine cannot do what is asked: `detail` says why
        EngineFailed,    ///< `detail` says how
    };
    Code code = Code::None;
    QString model = {};
    int promptTokens = 0;
    int contextTokens = 0;
    QString detail = {}; ///< the engine's sentence; may be empty

    explicit operator bool() const { return code != Code::None; }
};

/// What happened, to what, what to do.
QString sentence(const LoadFailure& failure);
QString sentence(const AnswerFailure& failure); ///< empty for Code::None

/// Why an answer ended, in a word or two; empty where it ended by itself, or with a failure.
QString endWord(orrery::FinishReason reason);

} // namespace orrery::ui
