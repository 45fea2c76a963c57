// SPDX-License-Identifier: Apache-2.0
package sbetool;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.List;
import uk.co.real_logic.sbe.PrimitiveType;
import uk.co.real_logic.sbe.PrimitiveValue;
import uk.co.real_logic.sbe.ir.Encoding;
import uk.co.real_logic.sbe.ir.Ir;
import uk.co.real_logic.sbe.ir.Signal;
import uk.co.real_logic.sbe.ir.Token;

/** What sbe-tool made of a schema, as JSON: the truth that random values are made by, and that Python's model is compared with. */
final class Describe {
    private final Ir ir;

    Describe(Ir ir) {
        this.ir = ir;
    }

    JsonObject schema() {
        JsonObject schema = new JsonObject();
        schema.addProperty("id", ir.id());
        schema.addProperty("version", ir.version());
        schema.addProperty("package", ir.packageName());
        schema.addProperty("byte_order", ir.byteOrder().toString());
        schema.add("header", type(ir.headerStructure().tokens(), 0));
        JsonArray messages = new JsonArray();
        for (List<Token> tokens : ir.messages()) {
            JsonObject message = new JsonObject();
            Token token = tokens.get(0);
            message.addProperty("name", token.name());
            message.addProperty("id", token.id());
            message.addProperty("since", token.version());
            message.addProperty("block_length", token.encodedLength());
            body(tokens, 1, message);
            messages.add(message);
        }
        schema.add("messages", messages);
        return schema;
    }

    /** Fields, groups and data from token {@code at} on, into {@code into}; where they end. */
    private int body(List<Token> tokens, int at, JsonObject into) {
        JsonArray fields = new JsonArray();
        JsonArray groups = new JsonArray();
        JsonArray data = new JsonArray();
        int i = at;
        for (; i < tokens.size(); i += tokens.get(i).componentTokenCount()) {
            Token token = tokens.get(i);
            JsonObject one = new JsonObject();
            one.addProperty("name", token.name());
            one.addProperty("id", token.id());
            one.addProperty("since", token.version());
            if (token.signal() == Signal.BEGIN_FIELD) {
                one.addProperty("offset", tokens.get(i + 1).offset());
                one.addProperty("presence", token.encoding().presence().toString());
                one.add("type", type(tokens, i + 1));
                if (token.isConstantEncoding() && token.encoding().constValue() != null) {
                    one.addProperty("const", token.encoding().constValue().toString());
                }
                fields.add(one);
            } else if (token.signal() == Signal.BEGIN_GROUP) {
                one.addProperty("block_length", token.encodedLength());
                one.add("dimension", type(tokens, i + 1));
                body(tokens, i + 1 + tokens.get(i + 1).componentTokenCount(), one);
                groups.add(one);
            } else if (token.signal() == Signal.BEGIN_VAR_DATA) {
                one.add("type", type(tokens, i + 1));
                data.add(one);
            } else {
                break;
            }
        }
        into.add("fields", fields);
        into.add("groups", groups);
        into.add("data", data);
        return i;
    }

    private JsonObject type(List<Token> tokens, int at) {
        Token token = tokens.get(at);
        JsonObject type = new JsonObject();
        type.addProperty("kind", kind(token.signal()));
        type.addProperty("name", token.name());
        type.addProperty("offset", token.offset());
        type.addProperty("since", token.version());
        type.addProperty("length", token.encodedLength());
        Encoding encoding = token.encoding();
        type.addProperty("presence", encoding.presence().toString());
        PrimitiveType primitive = encoding.primitiveType();
        if (primitive != null) {
            type.addProperty("primitive", primitive.primitiveName());
            type.addProperty("count", token.arrayLength());
            type.addProperty("charset", encoding.characterEncoding());
            type.addProperty("byte_order", encoding.byteOrder().toString());
            type.addProperty("null", value(encoding.applicableNullValue(), primitive));
            type.addProperty("min", value(encoding.applicableMinValue(), primitive));
            type.addProperty("max", value(encoding.applicableMaxValue(), primitive));
            if (encoding.constValue() != null) {
                type.addProperty("const", value(encoding.constValue(), primitive));
            }
        }
        JsonArray members = new JsonArray();
        int end = at + token.componentTokenCount() - 1;
        for (int i = at + 1; i < end; i += tokens.get(i).componentTokenCount()) {
            members.add(type(tokens, i));
        }
        type.add("members", members);
        return type;
    }

    private static String kind(Signal signal) {
        switch (signal) {
            case BEGIN_COMPOSITE:
                return "composite";
            case BEGIN_ENUM:
                return "enum";
            case BEGIN_SET:
                return "set";
            case VALID_VALUE:
                return "value";
            case CHOICE:
                return "choice";
            default:
                return "encoding";
        }
    }

    /** Integers unsigned where their type is; floating point as Java writes it; constant text as its characters. */
    private static String value(PrimitiveValue value, PrimitiveType primitive) {
        if (value == null) {
            return null;
        }
        switch (value.representation()) {
            case LONG:
                return primitive == PrimitiveType.UINT64 ? Long.toUnsignedString(value.longValue()) : Long.toString(value.longValue());
            case DOUBLE:
                return Double.toString(value.doubleValue());
            default:
                return value.toString();
        }
    }
}
