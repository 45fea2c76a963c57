// SPDX-License-Identifier: Apache-2.0
/**
 * Typed messages in place, with SBE codecs that sbe-tool generates with {@code sbe.java.generate.interfaces=true}
 * (spec/messages.md). {@link io.flyring.Publisher#claim(org.agrona.sbe.MessageEncoderFlyweight) Publisher.claim} wraps
 * an encoder over claimed space; a {@link io.flyring.sbe.Dispatcher} calls handlers with decoders.
 */
package io.flyring.sbe;
