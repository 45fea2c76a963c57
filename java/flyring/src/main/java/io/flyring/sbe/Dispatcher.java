// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.InvalidArgumentException;
import io.flyring.Message;
import io.flyring.MessageHandler;
import java.util.Objects;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.sbe.MessageDecoderFlyweight;

/**
 * A handler for {@code poll} that dispatches typed messages. It chooses the typed handler by template id, checks the
 * message (messages.md 1), and calls the handler with the decoder wrapped over the message in place. Does not allocate.
 * Not thread-safe: use it in one poll at a time.
 *
 * <pre>{@code
 * Dispatcher dispatcher = new Dispatcher()
 *     .on(new PriceUpdateDecoder(), (update, message) -> show(update.bid(), update.ask()))
 *     .on(new TradeDecoder(), this::onTrade)
 *     .otherwise(message -> unknown++);
 * subscriber.poll(dispatcher, 256);
 * }</pre>
 *
 * <p>Throws {@link io.flyring.BadMessageException} if a template has a handler and a message of it is too short for its
 * header or block, or its header has another schema id or template id. Such a message is consumed, as is a message when
 * its handler throws.
 */
public final class Dispatcher implements MessageHandler {
    /** The schemas' message header; null for the usual one. */
    private final MessageHeader header;
    private final Int2ObjectHashMap<Route<?>> routes = new Int2ObjectHashMap<>();
    private MessageHandler otherwise = message -> { };
    /** The route of the last message, which is often that of the next one, too. */
    private Route<?> last;

    /** Creates a dispatcher for schemas with the usual message header: four little-endian uint16. */
    public Dispatcher() {
        this.header = null;
    }

    /**
     * Creates a dispatcher for schemas with another message header.
     *
     * @param header the schemas' message header.
     */
    public Dispatcher(MessageHeader header) {
        this.header = Objects.requireNonNull(header, "header");
    }

    /**
     * Sets the handler for messages of one template.
     *
     * @param decoder the message's decoder, generated with {@code sbe.java.generate.interfaces=true}; from now on used
     *     by the dispatcher only.
     * @param handler called with the decoder over each such message.
     * @param <D> the decoder's class.
     * @return this.
     * @throws InvalidArgumentException if the template has a handler already, or has the id 0, which is not a valid
     *     type.
     */
    public <D extends MessageDecoderFlyweight> Dispatcher on(D decoder, TypedHandler<? super D> handler) {
        Route.add(routes, decoder, handler, header);
        return this;
    }

    /**
     * Sets the handler for messages of all other types. By default they are skipped.
     *
     * @param handler receives the raw message.
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
