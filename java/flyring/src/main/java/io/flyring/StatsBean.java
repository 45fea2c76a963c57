// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.Supplier;
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
 * An object of the platform's MBean server whose attributes are read from statistics. They are open types, so an agent
 * needs no class of Flyring.
 *
 * @param <S> the statistics.
 */
final class StatsBean<S> implements DynamicMBean {
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9._-]+");
    private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();

    private record Described<S>(String name, String text, OpenType<?> type, Function<S, ?> reader) {
    }

    /** What is described: Channel, Table or Journal. */
    private final String kind;
    private final Supplier<S> stats;
    private final List<Described<S>> all = new ArrayList<>();

    StatsBean(String kind, Supplier<S> stats) {
        this.kind = kind;
        this.stats = stats;
    }

    StatsBean<S> text(String name, String text, Function<S, ?> reader) {
        return add(name, text, SimpleType.STRING, reader.andThen(Object::toString));
    }

    StatsBean<S> number(String name, String text, Function<S, Long> reader) {
        return add(name, text, SimpleType.LONG, reader);
    }

    StatsBean<S> small(String name, String text, Function<S, Integer> reader) {
        return add(name, text, SimpleType.INTEGER, reader);
    }

    StatsBean<S> flag(String name, String text, Function<S, Boolean> reader) {
        return add(name, text, SimpleType.BOOLEAN, reader);
    }

    <R extends Record> StatsBean<S> table(String name, String text, Class<R> record, Function<S, List<R>> rows,
        String... index) {
        try {
            OpenTable<R> table = new OpenTable<>(record, index);
            return add(name, text, table.type(), read -> table.of(rows.apply(read)));
        } catch (OpenDataException e) {
            throw new IllegalStateException("Flyring has made a wrong open type: " + e, e);
        }
    }

    private StatsBean<S> add(String name, String text, OpenType<?> type, Function<S, ?> reader) {
        all.add(new Described<>(name, text, type, reader));
        return this;
    }

    /** Registers the object under the name of a file that may have the suffix; returns the name in the server. */
    ObjectName register(String path, String suffix, UUID id) {
        String file = path.substring(path.lastIndexOf('/') + 1);
        String text = file.endsWith(suffix) ? file.substring(0, file.length() - suffix.length()) : file;
        String quoted = PLAIN.matcher(text).matches() ? text : ObjectName.quote(text);
        try {
            ObjectName name = new ObjectName("io.flyring:type=" + kind + ",name=" + quoted + ",id=" + id);
            SERVER.registerMBean(this, name);
            return name;
        } catch (InstanceAlreadyExistsException e) {
            throw new InvalidArgumentException(lower(), path + " is registered already. Close its other " + kind
                + "Metrics first.");
        } catch (JMException e) {
            throw new IllegalStateException(path + " cannot be registered: " + e.getMessage(), e);
        }
    }

    /** Ends a registration; does nothing if there is none. */
    static void unregister(ObjectName name) {
        try {
            SERVER.unregisterMBean(name);
        } catch (InstanceNotFoundException gone) {
            return; // closed before, or unregistered by an agent
        } catch (JMException e) {
            throw new IllegalStateException(name + " cannot be unregistered: " + e.getMessage(), e);
        }
    }

    private String lower() {
        return kind.toLowerCase(Locale.ROOT);
    }

    @Override
    public Object getAttribute(String wanted) throws AttributeNotFoundException, MBeanException {
        for (Described<S> each : all) {
            if (each.name.equals(wanted)) {
                try {
                    return each.reader.apply(stats.get());
                } catch (FlyringException e) {
                    // an agent does not have the class of the error
                    throw new MBeanException(new IllegalStateException(e.getMessage()), e.getMessage());
                }
            }
        }
        throw new AttributeNotFoundException("A " + lower() + " has no attribute " + wanted + ".");
    }

    /** Reads the attributes from one snapshot. After the close of what is described there is none. */
    @Override
    public AttributeList getAttributes(String[] wanted) {
        AttributeList found = new AttributeList();
        S read;
        try {
            read = stats.get();
        } catch (FlyringException e) {
            return found;
        }
        for (String name : wanted) {
            for (Described<S> each : all) {
                if (each.name.equals(name)) {
                    found.add(new Attribute(name, each.reader.apply(read)));
                }
            }
        }
        return found;
    }

    @Override
    public void setAttribute(Attribute attribute) throws AttributeNotFoundException {
        throw new AttributeNotFoundException("The attributes of a " + lower() + " cannot be set.");
    }

    @Override
    public AttributeList setAttributes(AttributeList attributes) {
        return new AttributeList();
    }

    @Override
    public Object invoke(String action, Object[] arguments, String[] signature) {
        throw new UnsupportedOperationException("A " + lower() + " has no operations.");
    }

    @Override
    public MBeanInfo getMBeanInfo() {
        OpenMBeanAttributeInfo[] attributes = all.stream()
            .map(each -> new OpenMBeanAttributeInfoSupport(each.name, each.text, each.type, true, false, false))
            .toArray(OpenMBeanAttributeInfo[]::new);
        return new OpenMBeanInfoSupport("io.flyring." + kind, "The statistics of a " + lower() + ".", attributes, null,
            null, null);
    }
}
