// A sequence: the tokens of one answer so far, and how far their keys and values have been computed.
//
// All of scheduling is about one inequality, computed < length. A new prompt is far behind, a running answer
// is one token behind, a preempted one is far behind again; whichever it is, the scheduler lets it
// catch up.
#pragma once

#include "engine/cache/block_table.h"

#include <vector>

namespace orrery {

enum class SequenceState : uint8_t {
    waiting, ///< in the queue, without blocks on the device
    running, ///< in the batch: gets tokens in every step that has some for it
    ended,
};

struct Sequence {
    RequestId request = 0;
    int32_t sample = 0;
    int32_t priority = 0;
    uint64_t arrival = 0; ///< counts requests up in the order in which they came

    std::vector<TokenId> tokens;
    int32_t prompt_tokens = 0;
    int32_t max_length = 0; ///< how long it can become
    int32_t computed = 0;   ///< leading tokens whose keys and values lie in the table's blocks
    int32_t max_computed =
        0; ///< the largest `computed` has ever been: below it, computing is computing again
    BlockTable table;

    std::vector<int32_t>
        swap_slots;             ///< of a sequence that was swapped out: where its blocks are kept, in order
    int32_t swapped_tokens = 0; ///< what they hold

    int32_t cached_tokens = 0; ///< prompt tokens that were found in the cache when it first ran
    int32_t saved_tokens = 0;  ///< found in the cache when it began, until its first tokens are planned
    int32_t preemptions = 0;
    bool has_run = false;
    bool begun = false; ///< has been given tokens since it joined the batch

    SequenceState state = SequenceState::waiting;
    bool planned = false;    ///< gets tokens in the step that is being planned
    int32_t passed_over = 0; ///< for how many steps in succession the budget was spent before its turn came

    int32_t length() const { return int32_t(tokens.size()); }
    int32_t deficit() const { return length() - computed; }
};

} // namespace orrery
