// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "flyring/call.hpp"

namespace flyring::detail {

/// The calls of one client: the outstanding ones, by sequence and in start order, and unused ones for reuse. A call
/// whose last reference goes returns to this table; if the client is gone, it is deleted.
class CallTable {
  public:
    /// Holds a reference to a call and gives it back at the end. With `adopt` it takes over one that the caller has.
    class Hold {
      public:
        enum Adopt { adopt };
        explicit Hold(CallState& call) noexcept : call_(call) { ++call.refs; }
        Hold(CallState& call, Adopt) noexcept : call_(call) {}
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() { release(call_); }

      private:
        CallState& call_;
    };

    CallTable() : buckets_(8, nullptr) {}
    CallTable(const CallTable&) = delete;
    CallTable& operator=(const CallTable&) = delete;
    ~CallTable() {
        for (CallState* call : all_) {
            call->core = nullptr;
            call->table = nullptr;
            if (call->outstanding) --call->refs;
            if (call->refs <= 0) delete call;
        }
    }

    /// The number of outstanding calls.
    std::uint32_t size() const noexcept { return size_; }

    /// Returns an unused call with the next free sequence; it is not outstanding yet.
    CallState& make(ClientCore& core) {
        if (free_.empty()) grow();
        CallState& call = *free_.back();
        free_.pop_back();
        call.reset();
        call.core = &core;
        do {
            ++last_;
        } while (last_ == 0 || find(last_) != nullptr);
        call.sequence = last_;
        return call;
    }

    /// Makes a call outstanding.
    void add(CallState& call) noexcept {
        ++call.refs;
        call.outstanding = true;
        call.before = last_call_;
        call.behind = nullptr;
        (last_call_ != nullptr ? last_call_->behind : first_call_) = &call;
        last_call_ = &call;
        CallState*& bucket = bucket_of(call.sequence);
        call.next_of_bucket = bucket;
        bucket = &call;
        ++size_;
    }

    /// The outstanding call with this sequence, or null.
    CallState* find(std::uint32_t sequence) const noexcept {
        CallState* call = buckets_[sequence & (buckets_.size() - 1)];
        while (call != nullptr && call->sequence != sequence) call = call->next_of_bucket;
        return call;
    }

    /// Ends the outstanding state of a call.
    void remove(CallState& call) noexcept {
        CallState** at = &bucket_of(call.sequence);
        while (*at != &call) at = &(*at)->next_of_bucket;
        *at = call.next_of_bucket;
        (call.before != nullptr ? call.before->behind : first_call_) = call.behind;
        (call.behind != nullptr ? call.behind->before : last_call_) = call.before;
        call.outstanding = false;
        --size_;
        release(call);
    }

    /// Calls use(call) for each outstanding call in start order. `use` may remove its argument.
    template <typename Use>
    void for_each(Use&& use) {
        for (CallState* call = first_call_; call != nullptr;) {
            CallState* const behind = call->behind;
            use(*call);
            call = behind;
        }
    }

    /// Gives back one reference.
    static void release(CallState& call) noexcept {
        if (--call.refs > 0) return;
        if (call.table == nullptr) {
            delete &call;
        } else {
            call.table->free_.push_back(&call);  // grow() has reserved the room
        }
    }

  private:
    CallState*& bucket_of(std::uint32_t sequence) noexcept { return buckets_[sequence & (buckets_.size() - 1)]; }

    /// Makes one more call, and reserves room for all calls in each container.
    void grow() {
        const std::size_t more = all_.size() + 1;
        if (all_.capacity() < more) all_.reserve(2 * more);
        if (free_.capacity() < all_.capacity()) free_.reserve(all_.capacity());
        if (buckets_.size() < more) {
            std::vector<CallState*> wider(2 * buckets_.size(), nullptr);
            buckets_.swap(wider);
            for (CallState* call = first_call_; call != nullptr; call = call->behind) {
                CallState*& bucket = bucket_of(call->sequence);
                call->next_of_bucket = bucket;
                bucket = call;
            }
        }
        all_.push_back(new CallState);
        all_.back()->table = this;
        free_.push_back(all_.back());
    }

    std::uint32_t size_ = 0;
    std::uint32_t last_ = 0;  // last sequence given
    CallState* first_call_ = nullptr;
    CallState* last_call_ = nullptr;
    std::vector<CallState*> buckets_;  // by sequence; their number is a power of two
    std::vector<CallState*> free_;
    std::vector<CallState*> all_;
};

}  // namespace flyring::detail
