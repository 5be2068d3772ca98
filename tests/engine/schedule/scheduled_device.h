// A device for tests of the scheduler: it computes nothing, but remembers what lies in every slot.
//
// In the place of a key and value it keeps a digest of the tokens up to that position. Before a part of a
// plan runs, every slot that its attention would read must hold the right digest: whatever goes wrong with
// tables, copies, swaps, shared or evicted blocks shows here, at the step where it happens.
#pragma once

#include "engine/schedule/step_plan.h"
#include "kernels/error.h"

#include <map>
#include <string>
#include <vector>

namespace orrery::test {

class ScheduledDevice {
public:
    ScheduledDevice(int blocks, int block_size)
        : block_size_(block_size), slots_(size_t(blocks * block_size), 0) {}

    /// Throws Error that says what was found where.
    void carry_out(const StepPlan& plan) {
        for (const auto& [block, slot] : plan.swap_outs)
            host_[slot] = content(block);
        for (const auto& [block, slot] : plan.swap_ins)
            set_content(block, host_.at(slot));
        // Copies are independent of each other: none writes what another reads or writes.
        std::map<int32_t, std::vector<uint64_t>> copied;
        for (const auto& [from, to] : plan.copies)
            if (!copied.emplace(to, content(from)).second)
                throw Error("two copies write block " + std::to_string(to));
        for (const auto& [from, to] : plan.copies)
            if (copied.contains(from))
                throw Error("a copy reads block " + std::to_string(from) + ", which another one writes");
        for (const auto& [to, values] : copied)
            set_content(to, values);

        std::map<size_t, const Sequence*> written;
        for (const StepPlan::Part& part : plan.parts) {
            const Sequence& sequence = *part.sequence;
            uint64_t digest = 0;
            for (int32_t position = 0; position < part.first + part.tokens; ++position) {
                // Any function of all tokens so far will do (FNV-1a).
                digest = (digest ^ uint64_t(sequence.tokens[size_t(position)] + 1)) * 0x100000001b3 +
                         uint64_t(position);
                const size_t slot =
                    size_t(sequence.table.blocks.at(size_t(position / block_size_)) * block_size_ +
                           position % block_size_);
                if (position >= part.first) {
                    if (!written.emplace(slot, &sequence).second)
                        throw Error("two sequences write slot " + std::to_string(slot) + " in one step");
                    slots_[slot] = digest;
                } else if (slots_[slot] != digest) {
                    throw Error("request " + std::to_string(sequence.request) +
                                " finds something else at position " + std::to_string(position) + " of " +
                                std::to_string(sequence.length()));
                }
            }
        }
        // What one sequence writes, no other may have in its context.
        for (const StepPlan::Part& part : plan.parts)
            for (int32_t position = 0; position < part.first; ++position) {
                const size_t slot =
                    size_t(part.sequence->table.blocks[size_t(position / block_size_)] * block_size_ +
                           position % block_size_);
                if (written.contains(slot))
                    throw Error("request " + std::to_string(part.sequence->request) +
                                " reads a slot that another one writes");
            }
    }

private:
    std::vector<uint64_t> content(int32_t block) const {
        const auto begin = slots_.begin() + std::ptrdiff_t(block) * block_size_;
        return {begin, begin + block_size_};
    }
    void set_content(int32_t block, const std::vector<uint64_t>& values) {
        std::copy(values.begin(), values.end(), slots_.begin() + std::ptrdiff_t(block) * block_size_);
    }

    int block_size_;
    std::vector<uint64_t> slots_;
    std::map<int32_t, std::vector<uint64_t>> host_;
};

} // namespace orrery::test
