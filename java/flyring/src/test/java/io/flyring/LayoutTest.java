// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.tomlj.Toml;
import org.tomlj.TomlTable;

class LayoutTest {
    @Test
    void everyConstantAndOffsetIsTheSpecifications() throws Exception {
        TomlTable toml = Toml.parse(Files.readString(Path.of(System.getProperty("flyring.spec"), "layout.toml")));
        Map<String, String> specified = new TreeMap<>();
        for (String table : toml.keySet()) {
            if (toml.get(table) instanceof TomlTable values) {
                for (String key : values.keySet()) {
                    String name = table.equals("constants") ? key : table + "_" + key;
                    Object value = values.get(key) instanceof TomlTable field ? field.get("offset") : values.get(key);
                    specified.put(name.toUpperCase(Locale.ROOT), String.valueOf(value));
                }
            }
        }
        Map<String, String> ours = new TreeMap<>();
        for (Field field : Layout.class.getDeclaredFields()) {
            if (!field.isSynthetic()) {
                ours.put(field.getName(), String.valueOf(field.get(null)));
            }
        }
        assertEquals(specified, ours);
        assertTrue(ours.size() > 100, "names compared: " + ours.size());
    }
}
