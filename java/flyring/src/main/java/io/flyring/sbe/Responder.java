// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.InvalidArgumentException;
import io.flyring.Request;
import io.flyring.RequestHandler;
import java.util.Objects;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.sbe.MessageDecoderFlyweight;

/**
 * A handler for a server's {@code poll} and {@code serve}, as {@link Dispatcher} is one for a subscriber's: it chooses
 * the typed handler by template id, checks the request (spec/messages.md 1), and calls the handler with the decoder
 * wrapped over it, in place. Does not allocate. To be used by one server at a time.
 *
 * <pre>{@code
 * server.serve(new Responder()
 *     .on(new AskDecoder(), (ask, request) -> request.reply(price(ask)))
 *     .otherwise(request -> request.reply(request.toByteArray())));
 * }</pre>
 *
 * <p>A request that is not what its schema says ends its call with {@link io.flyring.ServiceErrorException}; so does
 * one of a template without a handler, {@code no handler for messages of type N}.
 */
public final class Responder implements RequestHandler {
    /** Null: the usual one. */
    private final MessageHeader header;
    private final Int2ObjectHashMap<Route<?>> routes = new Int2ObjectHashMap<>();
    private RequestHandler otherwise =
        request -> request.fail("no handler for messages of type " + request.type());
    /** The request of the message that a route has. */
    private Request current;

    /** For schemas with the usual message header: four uint16, little endian. */
    public Responder() {
        this.header = null;
    }

    /**
     * For schemas with another message header.
     *
     * @param header the schemas' message header.
     */
    public Responder(MessageHeader header) {
        this.header = Objects.requireNonNull(header, "header");
    }

    /**
     * Chooses the handler of a request.
     *
     * @param decoder the message's, generated with {@code sbe.java.generate.interfaces=true}; the responder's from now
     *     on.
     * @param handler is called with the decoder over each such request.
     * @param <D> the decoder's class.
     * @return this.
     * @throws InvalidArgumentException if the template has a handler already, or has the id 0, which no message
     *     can have.
     */
    public <D extends MessageDecoderFlyweight> Responder on(D decoder, TypedRequestHandler<? super D> handler) {
        Objects.requireNonNull(handler, "handler");
        Route.add(routes, decoder, (message, ignored) -> {
            try {
                handler.onRequest(message, current);
            } catch (Exception e) {
                throw Responder.<RuntimeException>as(e); // the server takes any
            }
        }, header);
        return this;
    }

    /** What may be thrown where the compiler does not see it. */
    @SuppressWarnings("unchecked")
    private static <E extends Exception> E as(Exception error) throws E {
        throw (E) error;
    }

    /**
     * Chooses the handler of every request whose type has no other one.
     *
     * @param handler gets the request.
     * @return this.
     */
    public Responder otherwise(RequestHandler handler) {
        otherwise = Objects.requireNonNull(handler, "handler");
        return this;
    }

    @Override
    public void onRequest(Request request) throws Exception {
        Route<?> route = routes.get(request.type());
        if (route == null) {
            otherwise.onRequest(request);
            return;
        }
        current = request;
        try {
            route.onMessage(request.message());
        } finally {
            current = null;
        }
    }
}
