// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import javax.management.openmbean.ArrayType;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.CompositeDataSupport;
import javax.management.openmbean.CompositeType;
import javax.management.openmbean.OpenDataException;
import javax.management.openmbean.OpenType;
import javax.management.openmbean.SimpleType;
import javax.management.openmbean.TabularData;
import javax.management.openmbean.TabularDataSupport;
import javax.management.openmbean.TabularType;

/** Turns a list of records into a table of open types. A component that is a list of records is left out. */
final class OpenTable<R extends Record> {
    private final TabularType type;

    OpenTable(Class<R> record, String... index) throws OpenDataException {
        CompositeType row = rowType(record);
        this.type = new TabularType(row.getTypeName(), row.getDescription(), row, index);
    }

    TabularType type() {
        return type;
    }

    TabularData of(List<R> rows) {
        TabularDataSupport table = new TabularDataSupport(type);
        for (R row : rows) {
            table.put(row(type.getRowType(), row));
        }
        return table;
    }

    private static RecordComponent[] components(Class<?> record) {
        return Arrays.stream(record.getRecordComponents())
            .filter(each -> !each.getGenericType().getTypeName().endsWith("Stats>")).toArray(RecordComponent[]::new);
    }

    private static CompositeType rowType(Class<?> record) throws OpenDataException {
        RecordComponent[] components = components(record);
        String[] names = Arrays.stream(components).map(RecordComponent::getName).toArray(String[]::new);
        OpenType<?>[] types = new OpenType<?>[names.length];
        for (int i = 0; i < types.length; i++) {
            types[i] = openType(components[i].getType());
        }
        return new CompositeType(record.getSimpleName(), "The fields of " + record.getSimpleName(), names, names,
            types);
    }

    private static OpenType<?> openType(Class<?> type) throws OpenDataException {
        if (type == int.class) {
            return SimpleType.INTEGER;
        } else if (type == long.class) {
            return SimpleType.LONG;
        } else if (type == boolean.class) {
            return SimpleType.BOOLEAN;
        } else if (type == List.class) {
            return ArrayType.getPrimitiveArrayType(int[].class);
        } else if (type.isRecord()) {
            return rowType(type);
        }
        return SimpleType.STRING;
    }

    private static CompositeData row(CompositeType type, Record record) {
        RecordComponent[] components = components(record.getClass());
        Object[] values = new Object[components.length];
        try {
            for (int i = 0; i < values.length; i++) {
                Object value = components[i].getAccessor().invoke(record);
                values[i] = openValue(type.getType(components[i].getName()), value);
            }
            return new CompositeDataSupport(type, Arrays.stream(components).map(RecordComponent::getName)
                .toArray(String[]::new), values);
        } catch (IllegalAccessException | InvocationTargetException | OpenDataException e) {
            throw new IllegalStateException("Flyring has made a wrong open type: " + e, e);
        }
    }

    private static Object openValue(OpenType<?> type, Object value) {
        if (value == null) {
            return null;
        } else if (type instanceof CompositeType nested) {
            return row(nested, (Record) value);
        } else if (value instanceof List<?> numbers) {
            return numbers.stream().mapToInt(each -> (Integer) each).toArray();
        } else if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes).replaceFirst("(00)+$", "");
        }
        return type == SimpleType.STRING ? value.toString() : value;
    }
}
