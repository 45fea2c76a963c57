// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.InstanceAlreadyExistsException;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanException;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.openmbean.OpenDataException;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.OpenMBeanAttributeInfoSupport;
import javax.management.openmbean.OpenMBeanInfoSupport;
import javax.management.openmbean.OpenType;
import javax.management.openmbean.SimpleType;

/**
 * A channel's {@link Stats} in the platform's MBean server, for JMX agents. Its attributes are open types, so an agent
 * needs no class of Flyring. It costs nothing until an agent asks.
 *
 * <p>The object's name is {@code io.flyring:type=Channel,name=NAME,id=ID}. Attributes: {@code Path}, {@code Id},
 * {@code Kind}, {@code Capacity}, {@code CreatedAt}, {@code Successor}, {@code AttachedPublishers},
 * {@code AttachedSubscribers}, {@code OwnerlessSlots}, {@code MaxLag}, {@code MaxLagMessages}, {@code MaxBlockedFor};
 * {@code Publishers}, {@code Subscribers}, {@code Gates} and {@code Counters} are tables.
 */
public final class ChannelMetrics implements AutoCloseable {
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9._-]+");
    private static final String SUFFIX = ".ring";

    private final MBeanServer server;
    private final ObjectName name;

    private ChannelMetrics(MBeanServer server, ObjectName name) {
        this.server = server;
        this.name = name;
    }

    /**
     * Registers a channel in the platform's MBean server.
     *
     * @param channel the channel; it may be attached read-only.
     * @return the registration, which its close ends. The close of the channel does not end it.
     * @throws InvalidArgumentException if the channel is registered already.
     * @throws ClosedException if the channel is closed.
     */
    public static ChannelMetrics register(Channel channel) {
        channel.checkOpen();
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        try {
            ObjectName name = nameOf(channel);
            server.registerMBean(new Bean(channel), name);
            return new ChannelMetrics(server, name);
        } catch (InstanceAlreadyExistsException e) {
            throw new InvalidArgumentException("channel", channel.path()
                + " is registered already. Close its other ChannelMetrics first.");
        } catch (JMException e) {
            throw new IllegalStateException(channel.path() + " cannot be registered: " + e.getMessage(), e);
        }
    }

    private static ObjectName nameOf(Channel channel) throws JMException {
        String file = channel.path().substring(channel.path().lastIndexOf('/') + 1);
        String text = file.endsWith(SUFFIX) ? file.substring(0, file.length() - SUFFIX.length()) : file;
        String quoted = PLAIN.matcher(text).matches() ? text : ObjectName.quote(text);
        return new ObjectName("io.flyring:type=Channel,name=" + quoted + ",id=" + channel.id());
    }

    /**
     * The name in the MBean server.
     *
     * @return the name.
     */
    public ObjectName name() {
        return name;
    }

    /** Unregisters the channel. A second close does nothing. */
    @Override
    public void close() {
        try {
            server.unregisterMBean(name);
        } catch (InstanceNotFoundException gone) {
            return; // closed before, or unregistered by an agent
        } catch (JMException e) {
            throw new IllegalStateException(name + " cannot be unregistered: " + e.getMessage(), e);
        }
    }

    /** One gate: a row of the table Gates. */
    private record Gate(int subscriber, int ring, long position, long lag, long lagMessages) {
    }

    /** Reads an attribute from the statistics. */
    private interface Reader {
        Object read(Stats stats);
    }

    private record Described(String name, String text, OpenType<?> type, Reader reader) {
    }

    /** The attributes, and their values at one moment. */
    private static final class Bean implements DynamicMBean {
        private final Channel channel;
        private final List<Described> all = new ArrayList<>();

        Bean(Channel channel) throws OpenDataException {
            this.channel = channel;
            OpenType<String> text = SimpleType.STRING;
            OpenType<Integer> small = SimpleType.INTEGER;
            OpenType<Long> large = SimpleType.LONG;
            add("Path", "The channel's file.", text, Stats::path);
            add("Id", "The channel's id.", text, stats -> stats.id().toString());
            add("Kind", "The channel's kind.", text, stats -> stats.kind().toString());
            add("Capacity", "Bytes of one ring.", small, Stats::capacity);
            add("CreatedAt", "When the channel was created, in ns since 1970.", large, Stats::createdAt);
            add("Successor", "1: replaced; 2: its name was removed; 0: neither.", small, Stats::successor);
            add("AttachedPublishers", "Publisher slots that a process owns.", large,
                stats -> stats.publishers().stream().filter(slot -> attached(slot.state())).count());
            add("AttachedSubscribers", "Subscriber slots that a process owns.", large,
                stats -> stats.subscribers().stream().filter(slot -> attached(slot.state())).count());
            add("OwnerlessSlots", "Subscriber slots that are kept, and that no process owns.", large,
                stats -> stats.subscribers().stream().filter(slot -> slot.kept() && ownerless(slot.state())).count());
            add("MaxLag", "Bytes that the slowest subscriber has not read of a ring.", large,
                stats -> gates(stats).stream().mapToLong(Gate::lag).max().orElse(0));
            add("MaxLagMessages", "Messages that the slowest subscriber has not read of a ring.", large,
                stats -> Math.max(0, gates(stats).stream().mapToLong(Gate::lagMessages).max().orElse(0)));
            add("MaxBlockedFor", "For how long the longest blocked publisher has found no room, in ns.", large,
                stats -> stats.publishers().stream().mapToLong(PublisherStats::blockedFor).max().orElse(0));
            add("Publishers", "The publisher slots and their rings.",
                new OpenTable<>(PublisherStats.class, "slot"), Stats::publishers);
            add("Subscribers", "The subscriber slots.",
                new OpenTable<>(SubscriberStats.class, "slot"), Stats::subscribers);
            add("Gates", "How far each subscriber slot has read each ring.",
                new OpenTable<>(Gate.class, "subscriber", "ring"), Bean::gates);
            add("Counters", "The allocated counters.", new OpenTable<>(CounterStats.class, "id"), Stats::counters);
        }

        private void add(String name, String text, OpenType<?> type, Reader reader) {
            all.add(new Described(name, text, type, reader));
        }

        private <R extends Record> void add(String name, String text, OpenTable<R> table, Rows<R> rows) {
            add(name, text, table.type(), stats -> table.of(rows.read(stats)));
        }

        private static List<Gate> gates(Stats stats) {
            return stats.subscribers().stream().flatMap(slot -> slot.gates().stream().map(gate ->
                new Gate(slot.slot(), gate.ring(), gate.position(), gate.lag(), gate.lagMessages()))).toList();
        }

        private static boolean attached(SlotState state) {
            return state == SlotState.LIVE || state == SlotState.FOREIGN;
        }

        private static boolean ownerless(SlotState state) {
            return state == SlotState.UNUSED || state == SlotState.AWAY;
        }

        @Override
        public Object getAttribute(String wanted) throws AttributeNotFoundException, MBeanException {
            for (Described each : all) {
                if (each.name.equals(wanted)) {
                    try {
                        return each.reader.read(channel.stats());
                    } catch (FlyringException e) {
                        // an agent does not have the class of the error
                        throw new MBeanException(new IllegalStateException(e.getMessage()), e.getMessage());
                    }
                }
            }
            throw new AttributeNotFoundException("A channel has no attribute " + wanted + ".");
        }

        /** Reads the attributes from one snapshot. After the channel's close there is none. */
        @Override
        public AttributeList getAttributes(String[] wanted) {
            AttributeList found = new AttributeList();
            Stats stats;
            try {
                stats = channel.stats();
            } catch (FlyringException e) {
                return found;
            }
            for (String name : wanted) {
                for (Described each : all) {
                    if (each.name.equals(name)) {
                        found.add(new Attribute(name, each.reader.read(stats)));
                    }
                }
            }
            return found;
        }

        @Override
        public void setAttribute(Attribute attribute) throws AttributeNotFoundException {
            throw new AttributeNotFoundException("The attributes of a channel cannot be set.");
        }

        @Override
        public AttributeList setAttributes(AttributeList attributes) {
            return new AttributeList();
        }

        @Override
        public Object invoke(String action, Object[] arguments, String[] signature) {
            throw new UnsupportedOperationException("A channel has no operations.");
        }

        @Override
        public MBeanInfo getMBeanInfo() {
            OpenMBeanAttributeInfo[] attributes = all.stream()
                .map(each -> new OpenMBeanAttributeInfoSupport(each.name, each.text, each.type, true, false, false))
                .toArray(OpenMBeanAttributeInfo[]::new);
            return new OpenMBeanInfoSupport(Channel.class.getName(), "The statistics of a channel.", attributes, null,
                null, null);
        }
    }

    /** Reads the rows of a table from the statistics. */
    private interface Rows<R> {
        List<R> read(Stats stats);
    }
}
