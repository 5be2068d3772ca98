// Requests of all kinds, for tests of the whole engine.
#pragma once

#include "engine/model/model.h"
#include "engine/request.h"
#include "tests/support/random.h"

#include <vector>

namespace orrery::test {

/// Requests of mixed lengths (up to 190 tokens and 24 more) and settings; many begin alike. All have seeds.
std::vector<Request> mixed_requests(Random& random, int count, int vocab);

/// New tokens of a request of text_requests(), at the most.
inline constexpr int longest_text_answer = 32;

/// The same mixture over prompts of real text, from 1 to `longest_prompt` tokens of this model: passages of
/// English, Chinese and C++, conversations with a common beginning, documents with questions. The texts are
/// files of this repository. The first request is the shortest, the second the longest.
std::vector<Request> text_requests(Random& random, int count, const Model& model, int longest_prompt);

} // namespace orrery::test
