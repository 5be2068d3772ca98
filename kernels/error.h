// The one exception type of Orrery: a sentence a person can act on.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace orrery {

/// What went wrong, with what, and which value: one clear sentence, shown to the user as it is.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Memory that was asked for and is not there: how much was needed, how much there was.
class OutOfMemory : public Error {
public:
    using Error::Error;
};

/// The work was stopped on request (a load that was cancelled).
class Cancelled : public Error {
public:
    using Error::Error;
};

/// The sentence about a failure of any kind: an Error's own, and plain words where memory has run out in the
/// middle of something.
inline std::string sentence_of(const std::exception& failure) {
    return dynamic_cast<const std::bad_alloc*>(&failure) ? "There was no memory left for it."
                                                         : failure.what();
}

} // namespace orrery
