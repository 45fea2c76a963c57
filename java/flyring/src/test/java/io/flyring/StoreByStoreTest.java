// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.abort;

import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Death after each store of each operation; see {@link StoreByStore} and {@link StoreDeaths}. */
class StoreByStoreTest {
    @RegisterExtension
    final Rings rings = new Rings();

    @Test
    @Tag("long")
    void whateverStoreIsTheLastNothingIsLostTornOrStuck() throws Exception {
        List<String> lines = Stores.run(rings, StoreByStore.class, rings.folder().toString());
        String last = lines.get(lines.size() - 1);
        System.out.println(last);
        assertTrue(last.startsWith("done: ") && lines.size() > 60, last);
        for (String line : lines.subList(0, lines.size() - 1)) {
            assertTrue(line.matches(".*: [1-9][0-9]* stores") || line.startsWith("close, kept"), line);
        }
    }

    @ParameterizedTest
    @Tag("long")
    @ValueSource(classes = {StoreByStoreJobs.class, StoreByStoreCalls.class})
    void whateverStoreIsTheLastNoJobIsLostAndEachCallEndsOnce(Class<?> what) throws Exception {
        List<String> lines = Stores.run(rings, what, rings.folder().toString());
        String last = lines.get(lines.size() - 1);
        System.out.println(last);
        assertTrue(last.startsWith("done: ") && lines.size() > 20, last);
        for (String line : lines.subList(0, lines.size() - 1)) {
            boolean nothing = line.contains("after an evict"); // an evicted worker or client stores nothing more
            assertTrue(line.matches(nothing ? ".*: 0 stores" : ".*: [1-9][0-9]* stores"), line);
        }
    }

    @Test
    void lengthCountsPublishedAndClaimedAreStoredInThisOrder() throws Exception {
        List<String> lines = Stores.run(rings, StoreOrder.class, rings.path("order.ring"));
        System.out.println(lines);
        assertTrue(lines.size() == 1 && lines.get(0).startsWith("done: "), lines.toString());
    }

    @Test
    void afterEachStoreTheFileHasTheSameBytesAsInCpp() throws Exception {
        String states = System.getProperty("flyring.states");
        if (states == null) {
            abort("needs -Dflyring.states=FOLDER, which interop-tests/steps writes with --states");
        }
        List<String> lines = Stores.run(rings, StoreStates.class, states, rings.path("states.ring"));
        lines.forEach(System.out::println);
        assertTrue(lines.size() > 25 && lines.get(lines.size() - 1).startsWith("done: "), lines.toString());
    }

    @Test
    void afterEachStoreATableHasTheSameBytesAsInCpp() throws Exception {
        String states = System.getProperty("flyring.states");
        if (states == null) {
            abort("needs -Dflyring.states=FOLDER, which interop-tests/steps writes with --states");
        }
        List<String> lines = Stores.run(rings, StoreTableStates.class, states, rings.path("states.table"));
        lines.forEach(System.out::println);
        String last = lines.get(lines.size() - 1);
        if (last.startsWith("none: ")) {
            abort(last);
        }
        assertTrue(lines.size() > 18 && last.startsWith("done: "), lines.toString());
    }
}
