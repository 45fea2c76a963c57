// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;
import javax.management.Attribute;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanException;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.TabularData;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXConnectorServer;
import javax.management.remote.JMXConnectorServerFactory;
import javax.management.remote.JMXServiceURL;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A channel's statistics in JMX. */
class ChannelMetricsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();

    private Channel channel() {
        return Channel.create(rings.path("orders.ring"),
            ChannelOptions.broadcast().publishers(2).subscribers(2).capacity(4096).counters(2));
    }

    private static CompositeData row(Object table, Object... key) {
        return ((TabularData) table).get(key);
    }

    @Test
    void theAttributesAreThoseOfStats() throws Exception {
        try (Channel channel = channel(); ChannelMetrics metrics = ChannelMetrics.register(channel)) {
            Publisher publisher = channel.publisher("feed");
            Subscriber subscriber = channel.subscriber("dash", true);
            channel.counters().allocate("orders", 7, new byte[] {1, 0, 2}).set(5);
            byte[] message = new byte[100];
            while (publisher.offer(message) >= 0) {
                assertTrue(publisher.position() < 4096);
            }
            Stats stats = channel.stats();
            ObjectName name = metrics.name();
            assertEquals("io.flyring:type=Channel,name=orders,id=" + channel.id(), name.toString());
            assertEquals(channel.path(), server.getAttribute(name, "Path"));
            assertEquals(channel.id().toString(), server.getAttribute(name, "Id"));
            assertEquals("broadcast", server.getAttribute(name, "Kind"));
            assertEquals(4096, server.getAttribute(name, "Capacity"));
            assertEquals(stats.createdAt(), server.getAttribute(name, "CreatedAt"));
            assertEquals(0, server.getAttribute(name, "Successor"));
            assertEquals(1L, server.getAttribute(name, "AttachedPublishers"));
            assertEquals(1L, server.getAttribute(name, "AttachedSubscribers"));
            GateStats gate = stats.subscribers().get(0).gates().get(0);
            assertEquals(gate.lag(), server.getAttribute(name, "MaxLag"));
            assertEquals(gate.lagMessages(), server.getAttribute(name, "MaxLagMessages"));
            assertTrue((long) server.getAttribute(name, "MaxBlockedFor") > 0);

            CompositeData ring = row(server.getAttribute(name, "Publishers"), 0);
            assertEquals("feed", ring.get("name"));
            assertEquals("live", ring.get("state"));
            assertEquals(stats.publishers().get(0).messages(), ring.get("messages"));
            assertArrayEquals(new int[] {0}, (int[]) ring.get("blockedBy"));
            CompositeData slot = row(server.getAttribute(name, "Subscribers"), 0);
            assertEquals(true, slot.get("kept"));
            assertNull(slot.get("inHand"));
            assertFalse(slot.containsKey("gates"));
            CompositeData read = row(server.getAttribute(name, "Gates"), 0, 0);
            assertEquals(gate.lag(), read.get("lag"));
            CompositeData counter = row(server.getAttribute(name, "Counters"), 0);
            assertEquals("orders 7 010002 5", counter.get("label") + " " + counter.get("typeId") + " "
                + counter.get("key") + " " + counter.get("value"));
            subscriber.close();
            assertEquals(1L, server.getAttribute(name, "OwnerlessSlots"));
        }
    }

    @Test
    void theJobInHandIsAComposite() throws Exception {
        try (Channel channel = Channel.create(rings.path("jobs.ring"), ChannelOptions.queue().capacity(4096));
             ChannelMetrics metrics = ChannelMetrics.register(channel)) {
            channel.publisher("feed").offer(new byte[8]);
            Job job = channel.worker("busy").take();
            CompositeData slot = row(server.getAttribute(metrics.name(), "Subscribers"), 1);
            CompositeData hand = (CompositeData) slot.get("inHand");
            assertEquals(job.ring(), hand.get("ring"));
            assertEquals(job.position(), hand.get("position"));
            job.done();
        }
    }

    @Test
    void everyAttributeIsDescribedAndOfItsType() throws Exception {
        try (Channel channel = channel(); ChannelMetrics metrics = ChannelMetrics.register(channel)) {
            channel.counters().allocate("orders");
            MBeanInfo info = server.getMBeanInfo(metrics.name());
            for (MBeanAttributeInfo each : info.getAttributes()) {
                Object value = server.getAttribute(metrics.name(), each.getName());
                assertTrue(((OpenMBeanAttributeInfo) each).getOpenType().isValue(value), each.getName());
                assertTrue(each.isReadable() && !each.isWritable());
            }
            String[] names = Arrays.stream(info.getAttributes()).map(MBeanAttributeInfo::getName)
                .toArray(String[]::new);
            assertEquals(names.length, server.getAttributes(metrics.name(), names).size());
            assertThrows(AttributeNotFoundException.class, () -> server.getAttribute(metrics.name(), "None"));
            assertThrows(AttributeNotFoundException.class,
                () -> server.setAttribute(metrics.name(), new Attribute("Path", "")));
        }
    }

    @Test
    void anAgentInAnotherProcessReadsIt() throws Exception {
        JMXConnectorServer remote = JMXConnectorServerFactory.newJMXConnectorServer(
            new JMXServiceURL("service:jmx:rmi://"), null, server);
        remote.start();
        try (Channel channel = channel(); ChannelMetrics metrics = ChannelMetrics.register(channel);
             JMXConnector agent = JMXConnectorFactory.connect(remote.getAddress())) {
            MBeanServerConnection connection = agent.getMBeanServerConnection();
            channel.publisher("feed");
            CompositeData ring = row(connection.getAttribute(metrics.name(), "Publishers"), 0);
            assertEquals("feed", ring.get("name"));
            channel.close();
            MBeanException error = assertThrows(MBeanException.class,
                () -> connection.getAttribute(metrics.name(), "Publishers"));
            assertEquals(IllegalStateException.class, error.getCause().getClass());
        } finally {
            remote.stop();
        }
    }

    @Test
    void closeUnregisters() throws Exception {
        try (Channel channel = channel()) {
            ChannelMetrics metrics = ChannelMetrics.register(channel);
            assertTrue(server.isRegistered(metrics.name()));
            assertThrows(InvalidArgumentException.class, () -> ChannelMetrics.register(channel));
            metrics.close();
            assertFalse(server.isRegistered(metrics.name()));
            metrics.close();
            assertThrows(InstanceNotFoundException.class, () -> server.getAttribute(metrics.name(), "Path"));
            ChannelMetrics.register(channel).close();
        }
        Set<ObjectName> left = server.queryNames(new ObjectName("io.flyring:*"), null);
        assertEquals("", left.stream().map(ObjectName::toString).collect(Collectors.joining(" ")));
    }

    @Test
    void aChannelThatIsClosedOrReadOnly() throws Exception {
        Channel channel = channel();
        String path = channel.path();
        try (ChannelMetrics metrics = ChannelMetrics.register(channel)) {
            channel.close();
            String[] names = {"Path", "Publishers"};
            assertEquals(0, server.getAttributes(metrics.name(), names).size());
            MBeanException error = assertThrows(MBeanException.class,
                () -> server.getAttribute(metrics.name(), "Path"));
            assertEquals(IllegalStateException.class, error.getCause().getClass());
        }
        assertThrows(ClosedException.class, () -> ChannelMetrics.register(channel));
        try (Channel reader = Channel.open(path, new OpenOptions().readOnly(true));
             ChannelMetrics metrics = ChannelMetrics.register(reader)) {
            assertEquals(path, server.getAttribute(metrics.name(), "Path"));
        }
    }

    @Test
    void aFileWithAnotherNameIsQuoted() throws Exception {
        try (Channel channel = Channel.create(rings.path("a,b=*.x"), ChannelOptions.inbox());
             ChannelMetrics metrics = ChannelMetrics.register(channel)) {
            assertEquals("\"a,b=\\*.x\"", metrics.name().getKeyProperty("name"));
            assertEquals(channel.path(), server.getAttribute(metrics.name(), "Path"));
        }
    }
}
