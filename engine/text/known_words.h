// What merging makes of words that are themselves tokens.
#pragma once

#include "engine/request.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace orrery {

/// Remembers of each token whether merging its own text gives that token alone. It nearly always does, but
/// only trying tells; and most words of a text are single tokens. Any number of threads may ask and answer
/// at once: all come to the same answer, so it does not matter which of them writes it.
class KnownWords {
public:
    enum State : uint8_t { untried, single, several };

    explicit KnownWords(size_t tokens) : states_(new std::atomic<uint8_t>[tokens]()) {}

    State state(TokenId token) const {
        return static_cast<State>(states_[token].load(std::memory_order_relaxed));
    }

    void remember(TokenId token, bool alone) const {
        states_[token].store(alone ? single : several, std::memory_order_relaxed);
    }

private:
    std::unique_ptr<std::atomic<uint8_t>[]> states_;
};

} // namespace orrery
