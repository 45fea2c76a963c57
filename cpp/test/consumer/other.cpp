// SPDX-License-Identifier: Apache-2.0
// A second translation unit: the headers must not define anything twice.
#include <flyring/flyring.hpp>

int count_messages(flyring::Subscriber& subscriber) {
    return subscriber.poll([](const flyring::Message&) {});
}
