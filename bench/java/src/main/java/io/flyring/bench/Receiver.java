// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/** Receives a contender's messages. A class, not an interface: with one subclass loaded, calls are direct. */
abstract class Receiver {
    abstract void onMessage(DirectBuffer buffer, int at);
}
