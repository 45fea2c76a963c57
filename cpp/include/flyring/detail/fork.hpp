// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <mutex>
#include <new>

namespace flyring::detail {

/// Base of objects that must not be used in a forked child. A fork's child first calls lost_by_fork() on each such
/// object of its parent. A final class enlists at the end of its constructors and delists first in its destructor:
/// another thread may fork at any time, and then finds complete objects only.
class ForkAware {
  public:
    ForkAware(const ForkAware&) = delete;
    ForkAware& operator=(const ForkAware&) = delete;

  protected:
    ForkAware() = default;
    ~ForkAware() = default;

    void enlist();
    void delist() noexcept;

    /// Called before a fork: takes the object's lock, so that the child finds the object in a consistent state. Parent
    /// and child release it.
    virtual void before_fork() noexcept = 0;
    virtual void after_fork() noexcept = 0;
    /// Runs in the child, which has only this thread: closes descriptors and marks the object as unusable.
    virtual void lost_by_fork() noexcept = 0;

  private:
    struct List {
        std::mutex mutex;
        ForkAware* first = nullptr;

        List() {
            if (::pthread_atfork(before, after_in_parent, after_in_child) != 0) throw std::bad_alloc();
        }
    };

    /// Never destroyed, because objects with static storage duration may end after it.
    static List& list() {
        static List& only = *new List;
        return only;
    }

    static void before() {
        list().mutex.lock();
        for (ForkAware* object = list().first; object != nullptr; object = object->next_) object->before_fork();
    }
    static void after_in_parent() {
        for (ForkAware* object = list().first; object != nullptr; object = object->next_) object->after_fork();
        list().mutex.unlock();
    }
    static void after_in_child() {
        for (ForkAware* object = list().first; object != nullptr; object = object->next_) object->lost_by_fork();
        after_in_parent();
    }

    ForkAware* next_ = nullptr;
    ForkAware* previous_ = nullptr;
};

inline void ForkAware::enlist() {
    const std::lock_guard<std::mutex> guard(list().mutex);
    next_ = list().first;
    if (next_ != nullptr) next_->previous_ = this;
    list().first = this;
}

inline void ForkAware::delist() noexcept {
    const std::lock_guard<std::mutex> guard(list().mutex);
    if (next_ != nullptr) next_->previous_ = previous_;
    (previous_ != nullptr ? previous_->next_ : list().first) = next_;
}

}  // namespace flyring::detail
