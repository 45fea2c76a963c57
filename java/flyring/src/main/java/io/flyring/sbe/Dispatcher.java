// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.InvalidArgumentException;
import io.flyring.Message;
import io.flyring.MessageHandler;
import java.util.Objects;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.sbe.MessageDecoderFlyweight;

/**
 * A handler for {@code poll} that chooses the typed handler by template id, checks the message (spec/messages.md 1),
 * and calls it with the decoder wrapped over the message, in place. Does not allocate. To be used in one poll at a
 * time.
 *
 * <pre>{@code
 * Dispatcher dispatcher = new Dispatcher()
 *     .on(new PriceUpdateDecoder(), (update, message) -> show(update.bid(), update.ask()))
 *     .on(new TradeDecoder(), this::onTrade)
 *     .otherwise(message -> unknown++);
 * subscriber.poll(dispatcher, 256);
 * }</pre>
 *
 * <p>A message of a template that has a handler is {@link io.flyring.BadMessageException} if it is too short for its
 * header, or for its block, or the header has another schema or template id. It is consumed, and so is one whose
 * handler throws.
 */
public final class Dispatcher implements MessageHandler {
    /** Null: the usual one. */
    private final MessageHeader header;
    private final Int2ObjectHashMap<Route<?>> routes = new Int2ObjectHashMap<>();
    private MessageHandler otherwise = message -> { };
    /** That of the last message: often that of the next one, too. */
    private Route<?> last;

    /** For schemas with the usual message header: four uint16, little endian. */
    public Dispatcher() {
        this.header = null;
    }

    /**
     * For schemas with another message header.
     *
     * @param header the schemas' message header.
     */
    public Dispatcher(MessageHeader header) {
        this.header = Objects.requireNonNull(header, "header");
    }

    /**
     * Chooses the handler of a message.
     *
     * @param decoder the message's, generated with {@code sbe.java.generate.interfaces=true}; the dispatcher's from now
     *     on.
     * @param handler is called with the decoder over each such message.
     * @param <D> the decoder's class.
     * @return this.
     * @throws InvalidArgumentException if the template has a handler already, or has the id 0, which no message
     *     can have.
     */
    public <D extends MessageDecoderFlyweight> Dispatcher on(D decoder, TypedHandler<? super D> handler) {
        Route.add(routes, decoder, handler, header);
        return this;
    }

    /**
     * Chooses the handler of every message whose type has no other one; by default they are skipped.
     *
     * @param handler gets the raw message.
     * @return this.
     */
    public Dispatcher otherwise(MessageHandler handler) {
        otherwise = Objects.requireNonNull(handler, "handler");
        return this;
    }

    @Override
    public void onMessage(Message message) {
        Route<?> route = last;
        if (route == null || route.template != message.type()) {
            route = routes.get(message.type());
            if (route == null) {
                otherwise.onMessage(message);
                return;
            }
            last = route;
        }
        route.onMessage(message);
    }
}
