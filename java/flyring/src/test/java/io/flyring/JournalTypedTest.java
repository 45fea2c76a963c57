// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.flyring.sbe.Dispatcher;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;

/** Typed messages in a journal. */
class JournalTypedTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("j.journal");
    }

    @Test
    void typedMessages() {
        PriceUpdateEncoder encoder = new PriceUpdateEncoder();
        Schema schema = Schema.load(Rings.spec("sbe/prices.xml"));
        try (Journal journal = Journal.create(path(), Journals.small().schema(schema));
            JournalWriter writer = Journals.writer(journal)) {
            JournalClaim claim = writer.claim(encoder);
            encoder.bid(8);
            claim.commit();
            writer.append(new byte[3]); // raw bytes have a type that no message of a schema has
            List<Long> bids = new ArrayList<>();
            List<Integer> raw = new ArrayList<>();
            Dispatcher dispatcher = new Dispatcher()
                .on(new PriceUpdateDecoder(), (decoder, message) -> bids.add(decoder.bid() + message.number()))
                .otherwise(message -> raw.add(message.type()));
            try (JournalReader reader = journal.reader()) {
                assertEquals(2, reader.poll(dispatcher));
            }
            assertEquals(List.of(8L), bids);
            assertEquals(List.of(65536), raw);
            assertEquals(schema.id(), journal.schemaId());
            assertEquals(schema.text(), journal.schema());
            assertThrows(InvalidArgumentException.class, () -> writer.claim(encoder, -1));
            assertEquals(2, writer.number());
        }
    }
}
