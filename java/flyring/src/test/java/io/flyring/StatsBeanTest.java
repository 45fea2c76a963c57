// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.reflect.RecordComponent;
import java.time.Duration;
import java.util.Locale;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.TabularData;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The statistics of tables and journals in JMX. */
class StatsBeanTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();

    /** Each field of the statistics is an attribute, is described, and has its type and value. */
    private void assertFieldsAre(Record stats, ObjectName name) throws Exception {
        MBeanAttributeInfo[] described = server.getMBeanInfo(name).getAttributes();
        RecordComponent[] fields = stats.getClass().getRecordComponents();
        assertEquals(fields.length, described.length);
        for (int i = 0; i < fields.length; i++) {
            String field = fields[i].getName();
            assertEquals(field.substring(0, 1).toUpperCase(Locale.ROOT) + field.substring(1),
                described[i].getName());
            Object value = server.getAttribute(name, described[i].getName());
            assertTrue(((OpenMBeanAttributeInfo) described[i]).getOpenType().isValue(value), field);
            if (!(value instanceof TabularData)) {
                assertEquals(String.valueOf(fields[i].getAccessor().invoke(stats)), value.toString(), field);
            }
        }
    }

    @Test
    void aTableHasTheAttributesOfItsStats() throws Exception {
        Table table = Table.create(rings.path("prices.table"), TableTest.text());
        try (TableMetrics metrics = TableMetrics.register(table)) {
            TableTest.put(table, "a", "1");
            try (TableWriter writer = table.writer("feed")) {
                ObjectName name = metrics.name();
                assertEquals("io.flyring:type=Table,name=prices,id=" + table.id(), name.toString());
                assertFieldsAre(table.stats(), name);
                assertEquals(1L, server.getAttribute(name, "Size"));
                assertEquals("feed", server.getAttribute(name, "Writer"));
                assertEquals(true, server.getAttribute(name, "Writing"));
            }
            assertThrows(InvalidArgumentException.class, () -> TableMetrics.register(table));
            table.close();
            MBeanException error = assertThrows(MBeanException.class,
                () -> server.getAttribute(metrics.name(), "Size"));
            assertEquals(IllegalStateException.class, error.getCause().getClass());
            metrics.close();
            assertFalse(server.isRegistered(metrics.name()));
        }
        assertThrows(ClosedException.class, () -> TableMetrics.register(table));
    }

    @Test
    void aJournalHasTheAttributesOfItsStats() throws Exception {
        Journal journal = Journal.create(rings.path("orders.journal"),
            Journals.small().sync(JournalSync.every(Duration.ofSeconds(2))));
        try (JournalMetrics metrics = JournalMetrics.register(journal);
            JournalConsumer consumer = journal.consumer("billing")) {
            journal.push(new byte[10]);
            ObjectName name = metrics.name();
            assertEquals("io.flyring:type=Journal,name=orders,id=" + journal.id(), name.toString());
            assertFieldsAre(journal.stats(), name);
            assertEquals(1L, server.getAttribute(name, "Messages"));
            assertEquals("2000000000 ns", server.getAttribute(name, "Sync"));
            TabularData consumers = (TabularData) server.getAttribute(name, "Consumers");
            CompositeData row = consumers.get(new Object[] {consumer.slot()});
            assertEquals("billing", row.get("name"));
            assertEquals(1L, row.get("behind"));
            assertEquals(true, row.get("live"));
            journal.close();
            assertThrows(MBeanException.class, () -> server.getAttribute(name, "Messages"));
        }
        assertThrows(ClosedException.class, () -> JournalMetrics.register(journal));
    }
}
