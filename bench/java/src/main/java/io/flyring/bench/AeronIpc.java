// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.aeron.Aeron;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.exceptions.AeronException;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.protocol.DataHeaderFlyweight;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.NoOpIdleStrategy;

/**
 * Aeron IPC with exclusive publications, its fastest kind. Options: {@code term} and {@code mtu} of the publications,
 * {@code limit} of a poll, {@code publication=concurrent}, {@code driver=invoker}: the driver runs in the loop of side
 * b instead of a separate process (two sides only).
 */
abstract class AeronIpc extends Contender {
    private static final int FROM_CLIENT = 1001;
    private static final int FROM_SERVER = 1002;
    private static final int SMALL_MTU = 1408; // Aeron's default

    Publication publication;
    private final FragmentHandler handler;
    private final int limit;
    private final int mtu;
    private final boolean merging;
    private final MediaDriver driver;
    private final AgentInvoker invoker;
    private Aeron aeron;
    private Subscription subscription;
    private Image image;

    AeronIpc(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        merging = setup.streaming() && setup.producers() > 1;
        boolean large = messages.size > SMALL_MTU - DataHeaderFlyweight.HEADER_LENGTH;
        mtu = setup.option("mtu", large ? 32 * 1024 : SMALL_MTU);
        FragmentHandler fragments = (buffer, offset, length, header) -> receiver.onMessage(buffer, offset);
        handler = messages.size <= mtu - DataHeaderFlyweight.HEADER_LENGTH ? fragments
            : new FragmentAssembler(fragments, messages.size);
        driver = setup.option("driver", "process").equals("invoker") && setup.side == Setup.Side.B ? invoked() : null;
        invoker = driver == null ? null : driver.sharedAgentInvoker();
    }

    private MediaDriver invoked() {
        if (setup.sides != 2) {
            throw new IllegalArgumentException("driver=invoker is for two sides");
        }
        return MediaDriver.launch(AeronDriver.context(setup)
            .threadingMode(ThreadingMode.INVOKER)
            .sharedIdleStrategy(NoOpIdleStrategy.INSTANCE));
    }

    @Override
    void connect() {
        aeron = Aeron.connect(new Aeron.Context()
            .aeronDirectoryName(setup.path("aeron").toString())
            .driverTimeoutMs(AeronDriver.PATIENCE_NS / 1_000_000)
            .preTouchMappedMemory(true)
            .driverAgentInvoker(invoker)
            .useConductorAgentInvoker(invoker != null)
            .errorHandler(AeronDriver::failed));
        if (setup.receives()) {
            subscription = aeron.addSubscription("aeron:ipc", setup.producer() ? FROM_SERVER : FROM_CLIENT);
        }
        if (setup.sends()) {
            publication = publication(setup.producer() ? FROM_CLIENT : FROM_SERVER);
        }
        while (!connected()) {
            if (invoker != null) {
                invoker.invoke();
                aeron.conductorAgentInvoker().invoke();
            }
            Thread.yield();
        }
        image = setup.receives() ? subscription.imageAtIndex(0) : null;
    }

    private Publication publication(int stream) {
        String channel = "aeron:ipc?term-length=" + setup.option("term", "64m") + "|mtu=" + mtu;
        return setup.option("publication", "exclusive").equals("concurrent") ? aeron.addPublication(channel, stream)
            : aeron.addExclusivePublication(channel, stream);
    }

    private boolean connected() {
        boolean concurrent = setup.option("publication", "exclusive").equals("concurrent");
        int images = merging && !concurrent ? setup.producers() : 1;
        return (publication == null || publication.isConnected())
            && (subscription == null || subscription.imageCount() == images);
    }

    /** Whether to try again after a try to publish returned {@code result}. */
    static boolean again(long result) {
        if (result >= 0) {
            return false;
        }
        if (result != Publication.BACK_PRESSURED && result != Publication.ADMIN_ACTION) {
            throw new AeronException("publishing: " + Publication.errorString(result));
        }
        return true;
    }

    @Override
    void receive() {
        if (merging) {
            subscription.poll(handler, limit);
        } else {
            image.poll(handler, limit);
        }
        if (invoker != null) {
            invoker.invoke();
        }
    }

    @Override
    String library() {
        return "aeron";
    }

    @Override
    public void close() {
        if (driver == null) {
            if (aeron != null) {
                aeron.close();
            }
        } else {
            driver.close(); // this also tells its clients
        }
    }
}
