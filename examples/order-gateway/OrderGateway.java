// SPDX-License-Identifier: Apache-2.0

import io.flyring.Action;
import io.flyring.BlockIdleStrategy;
import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.ControlledMessageHandler;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import io.flyring.WaitSet;
import org.agrona.concurrent.Agent;
import org.agrona.concurrent.AgentRunner;
import org.agrona.concurrent.AgentTerminationException;

/**
 * A gateway sends orders to an engine, which answers each with a report. Each part is an Agrona agent with a thread of
 * its own, which sleeps while there is nothing to do.
 *
 * <pre>
 * OrderGateway gateway COUNT    sends so many orders, and prints what became of each
 * OrderGateway engine           fills orders until the gateway closes
 * </pre>
 */
public final class OrderGateway {
    private static final int ORDER_LENGTH = 24; // number, quantity, price
    private static final int REPORT_LENGTH = 16; // number, quantity filled
    private static final long PRICE = 100; // the engine fills orders at this price or above

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 2 && args[0].equals("gateway")) {
            gateway(Integer.parseInt(args[1]));
        } else if (args.length == 1 && args[0].equals("engine")) {
            engine();
        } else {
            System.err.println("Use OrderGateway with: gateway COUNT, or engine.");
            System.exit(1);
        }
    }

    /** Both rings are small, so that they are often full. */
    private static Channel openOrders() {
        return Channel.openOrCreate("orders", ChannelOptions.inbox().capacity(8192).publishers(1));
    }

    private static Channel openReports() {
        return Channel.openOrCreate("reports", ChannelOptions.inbox().capacity(4096).publishers(1));
    }

    private static void gateway(int count) throws InterruptedException {
        try (Channel orders = openOrders(); Channel reports = openReports();
            Publisher publisher = orders.publisher("gateway");
            Subscriber subscriber = reports.subscriber("gateway", true)) {
            Thread sending = start(new OrderAgent(publisher, count), new WaitSet().add(publisher));
            Thread reading = start(new ReportAgent(subscriber, count), new WaitSet().add(subscriber));
            sending.join();
            reading.join();
        }
    }

    private static void engine() throws InterruptedException {
        try (Channel orders = openOrders(); Channel reports = openReports();
            Subscriber subscriber = orders.subscriber("engine", true);
            Publisher publisher = reports.publisher("engine")) {
            EngineAgent agent = new EngineAgent(subscriber, publisher);
            start(agent, new WaitSet().add(subscriber)).join();
            System.out.println(agent.filled + " orders; waited " + agent.waited + " times for room");
        }
    }

    /** Runs an agent in a thread of its own, which sleeps until something in the wait set is ready. */
    private static Thread start(Agent agent, WaitSet waits) {
        AgentRunner runner = new AgentRunner(new BlockIdleStrategy(waits), OrderGateway::fail, null, agent);
        return AgentRunner.startOnThread(runner);
    }

    private static void fail(Throwable error) {
        error.printStackTrace();
        System.exit(1);
    }

    /** Sends orders. */
    private static final class OrderAgent implements Agent {
        private final Publisher publisher;
        private final int count;
        private int sent;

        OrderAgent(Publisher publisher, int count) {
            this.publisher = publisher;
            this.count = count;
        }

        @Override
        public int doWork() {
            if (sent == count) {
                throw new AgentTerminationException(true);
            }
            Claim order = publisher.tryClaim(ORDER_LENGTH);
            if (order == null) {
                return 0; // there is no room: the thread sleeps until there is
            }
            order.buffer().putLong(0, sent);
            order.buffer().putLong(8, 10);
            order.buffer().putLong(16, PRICE - 1 + sent % 2);
            order.commit();
            sent++;
            return 1;
        }

        @Override
        public String roleName() {
            return "orders";
        }
    }

    /** Prints reports. */
    private static final class ReportAgent implements Agent {
        private final MessageHandler show = this::show;
        private final Subscriber subscriber;
        private final int count;
        private int received;

        ReportAgent(Subscriber subscriber, int count) {
            this.subscriber = subscriber;
            this.count = count;
        }

        @Override
        public int doWork() {
            if (received == count) {
                throw new AgentTerminationException(true);
            }
            int reported = subscriber.poll(show);
            received += reported;
            return reported;
        }

        private void show(Message report) {
            boolean filled = report.buffer().getLong(8) > 0;
            System.out.println("order " + report.buffer().getLong(0) + (filled ? ": filled" : ": rejected"));
        }

        @Override
        public String roleName() {
            return "reports";
        }
    }

    /** Answers each order with a report. */
    private static final class EngineAgent implements Agent {
        private final ControlledMessageHandler fill = this::fill;
        private final Subscriber subscriber;
        private final Publisher publisher;
        private final BlockIdleStrategy room;
        private boolean isFull;
        private long filled;
        private long waited;

        EngineAgent(Subscriber subscriber, Publisher publisher) {
            this.subscriber = subscriber;
            this.publisher = publisher;
            this.room = new BlockIdleStrategy(new WaitSet().add(publisher));
        }

        @Override
        public int doWork() {
            int work = subscriber.controlledPoll(fill);
            filled += work;
            if (isFull) {
                room.idle(); // sleeps until there is room for a report
                isFull = false;
                waited++;
            } else if (filled > 0 && subscriber.ended(0)) {
                throw new AgentTerminationException(true);
            }
            return work;
        }

        private Action fill(Message order) {
            Claim report = publisher.tryClaim(REPORT_LENGTH);
            if (report == null) {
                isFull = true;
                return Action.ABORT; // the order stays in the ring, and the next poll begins with it
            }
            long quantity = order.buffer().getLong(8);
            long price = order.buffer().getLong(16);
            report.buffer().putLong(0, order.buffer().getLong(0));
            report.buffer().putLong(8, price >= PRICE ? quantity : 0);
            report.commit();
            return Action.CONTINUE;
        }

        @Override
        public String roleName() {
            return "engine";
        }
    }
}
