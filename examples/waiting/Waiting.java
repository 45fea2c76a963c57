// SPDX-License-Identifier: Apache-2.0

import io.flyring.BackPressuredException;
import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import io.flyring.WaitSet;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * Sleeps until a message comes on either of two channels.
 *
 * <pre>
 * Waiting                 prints what comes; the text "stop" on the channel "control" ends it
 * Waiting CHANNEL TEXT    sends TEXT to the channel "orders" or "control"
 * </pre>
 */
public final class Waiting {
    private boolean stopped;

    public static void main(String[] args) {
        if (args.length == 0) {
            new Waiting().read();
        } else if (args.length == 2) {
            send(args[0], args[1]);
        } else {
            fail("Use Waiting, or Waiting CHANNEL TEXT.");
        }
    }

    private void read() {
        try (Channel orders = Channel.openOrCreate("orders", ChannelOptions.inbox());
            Channel control = Channel.openOrCreate("control", ChannelOptions.inbox());
            Subscriber orderReader = orders.subscriber();
            Subscriber controlReader = control.subscriber()) {
            WaitSet waits = new WaitSet().add(orderReader).add(controlReader);
            while (!stopped) {
                // Sleeps in the kernel. Those that are ready may have a message; poll() does not wait.
                for (AutoCloseable ready : waits.await()) {
                    boolean isControl = ready == controlReader;
                    ((Subscriber)ready).poll(message ->
                        show(isControl, new String(message.toByteArray(), StandardCharsets.UTF_8)));
                }
            }
        }
    }

    private void show(boolean isControl, String text) {
        System.out.println((isControl ? "control: " : "orders: ") + text);
        if (isControl && text.equals("stop")) {
            stopped = true;
        }
    }

    private static void send(String name, String text) {
        if (!name.equals("orders") && !name.equals("control")) {
            fail("There is no channel \"" + name + "\". Use orders or control.");
        }
        try (Channel channel = Channel.openOrCreate(name, ChannelOptions.inbox());
            Publisher publisher = channel.publisher()) {
            // Sleeps while the ring is full.
            publisher.send(text.getBytes(StandardCharsets.UTF_8), Duration.ofSeconds(5));
        } catch (BackPressuredException e) {
            fail("The ring was full for 5 seconds: " + e.getMessage());
        }
    }

    private static void fail(String text) {
        System.err.println(text);
        System.exit(1);
    }
}
