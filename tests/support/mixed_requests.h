// Requests of all kinds, for tests of the whole engine.
#pragma once

#include "engine/request.h"
#include "tests/support/random.h"

#include <vector>

namespace orrery::test {

/// Requests of mixed lengths (up to 190 tokens and 24 more) and settings; many begin alike. All have seeds.
std::vector<Request> mixed_requests(Random& random, int count, int vocab);

} // namespace orrery::test
