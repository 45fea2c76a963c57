// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.sbe.TypedTable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.BookDecoder;
import prices.BookEncoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;

/** Tables whose values are messages of a schema. */
class TableTypedTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final Schema schema = Schema.load(Rings.spec("sbe/prices.xml"));

    private TableOptions options() {
        return TableOptions.text().capacity(10).schema(schema).message(new PriceUpdateEncoder());
    }

    private String path() {
        return rings.path("prices.table");
    }

    private static TypedTable<PriceUpdateEncoder, PriceUpdateDecoder> typed(Table table) {
        return new TypedTable<>(table, new PriceUpdateEncoder(), new PriceUpdateDecoder());
    }

    @Test
    void fieldsAreWrittenReadAndUpdated() {
        try (Table table = Table.create(path(), options())) {
            assertEquals(8 + PriceUpdateEncoder.BLOCK_LENGTH, table.valueBytes());
            TypedTable<PriceUpdateEncoder, PriceUpdateDecoder> prices = typed(table);
            assertNull(prices.read("FLYR", PriceUpdateDecoder::bid));
            assertEquals(0, prices.update("FLYR", price -> price.bid(1)));
            final long first = prices.put("FLYR", price -> price.bid(10).lastSide(Side.SELL).instrument().id(42));
            assertEquals("10 SELL 42", prices.read("FLYR", price -> price.bid() + " " + price.lastSide() + " "
                + price.instrument().id()));
            try (TableWriter writer = table.writer()) {
                assertTrue(prices.with(writer).update("FLYR", price -> price.bid(11)) > first);
                prices.with(writer).put("ELSE", price -> price.bid(99));
            }
            assertEquals("11 SELL 42", prices.read("FLYR", price -> price.bid() + " " + price.lastSide() + " "
                + price.instrument().id()));
            assertEquals(99, prices.read("ELSE", PriceUpdateDecoder::bid));
        }
        try (Table table = Table.open(path(), new OpenOptions().schema(schema))) {
            assertEquals(11, typed(table).read("FLYR", PriceUpdateDecoder::bid));
            assertEquals(schema.text(), table.schema());
            assertEquals(PriceUpdateEncoder.TEMPLATE_ID, table.valueTemplate());
            assertThrows(InvalidArgumentException.class,
                () -> new TypedTable<>(table, new BookEncoder(), new BookDecoder()));
            assertThrows(InvalidArgumentException.class,
                () -> new TypedTable<>(table, new PriceUpdateEncoder(), new BookDecoder()));
        }
    }

    @Test
    void aValueThatIsNotTheMessageIsBad() {
        try (Table table = Table.create(path(), options())) {
            PayloadBuffer bytes = TableTest.buffer(new byte[table.valueBytes()]);
            TypedTable<PriceUpdateEncoder, PriceUpdateDecoder> prices = typed(table);
            prices.put("good", price -> price.bid(1));
            table.get("good", bytes, 0);
            table.put("short", bytes, 0, 7);
            table.put("cut", bytes, 0, 20);
            bytes.putShort(2, (short) 2);
            table.put("other", bytes, 0, bytes.capacity());
            for (String key : new String[] {"short", "cut", "other"}) {
                assertThrows(BadMessageException.class, () -> prices.read(key, PriceUpdateDecoder::bid), key);
                assertThrows(BadMessageException.class, () -> prices.update(key, price -> price.bid(2)), key);
            }
            assertEquals(1, prices.read("good", PriceUpdateDecoder::bid));
            assertEquals(4, table.version());
        }
    }

    @Test
    void theSchemaIsComparedAndTheMessageIsOfIt() {
        Table.create(path(), options()).close();
        assertEquals("schema_id", assertThrows(ChannelDiffersException.class, () -> Table.openOrCreate(path(),
            TableOptions.text().capacity(10).valueBytes(8 + PriceUpdateEncoder.BLOCK_LENGTH))).field());
        assertEquals("message", assertThrows(InvalidArgumentException.class, () -> Table.create(path(),
            TableOptions.text().capacity(1).message(new PriceUpdateEncoder()))).argument());
        try (Table table = Table.openOrCreate(path(), options())) {
            assertEquals(7, table.schemaId());
        }
    }
}
