package penstock.kernel;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;

/** An object with known fields. Others are passed over; of a field that stands twice the last value counts. */
final class DecodeStruct extends DecodeType {
  private final String[] names;
  private final DecodeType[] types;
  private final byte[][] keys;
  /** Each key as producers write it: in quotes, with the colon right behind. */
  private final byte[][] tokens;
  /**
   * The field that followed each field the last time, and at the end the one that came first: producers write
   * fields in the same order each time. Only a guess, so threads may share it.
   */
  private final int[] following;

  DecodeStruct(StructType type, Epoch epoch) {
    super("struct");
    int size = type.size();
    names = type.fieldNames();
    types = new DecodeType[size];
    keys = new byte[size][];
    tokens = new byte[size][];
    following = new int[size + 1];
    for (int i = 0; i < size; i++) {
      types[i] = of(type.apply(i).dataType(), epoch);
      keys[i] = names[i].getBytes(StandardCharsets.UTF_8);
      tokens[i] = ("\"" + names[i] + "\":").getBytes(StandardCharsets.UTF_8);
      following[i] = i + 1 < size ? i + 1 : 0;
    }
  }

  @Override Object value(JsonCursor json, byte first) throws Malformed {
    if (first != '{') throw unexpected(json, first);
    Object[] values = new Object[types.length];
    fill(json, values);
    return new GenericInternalRow(values);
  }

  /** Reads the object that comes next into the first of these values. */
  void fill(JsonCursor json, Object[] values) throws Malformed {
    json.enter('{');
    if (json.peek() != '}') {
      int previous = types.length;
      do {
        int field = field(json, previous);
        if (field < 0) {
          json.skip();
        } else {
          values[field] = value(json, field);
          previous = field;
        }
      } while (json.take(','));
    }
    json.leave('}');
  }

  private Object value(JsonCursor json, int field) throws Malformed {
    try {
      return types[field].read(json);
    } catch (Malformed malformed) {
      throw malformed.inField(names[field]);
    }
  }

  /** Moves past a key and its colon; the number of the field, or -1 for one that the schema does not name. */
  private int field(JsonCursor json, int previous) throws Malformed {
    json.peek();
    int guess = following[previous];
    if (json.take(tokens[guess])) return guess;
    int next = following[guess]; // a field that is left out at times
    if (json.take(tokens[next])) return next;
    int field = search(json);
    json.expect(':');
    if (field >= 0) following[previous] = field;
    return field;
  }

  private int search(JsonCursor json) throws Malformed {
    int start = json.at + 1;
    boolean escaped = json.skipString();
    int end = json.at - 1;
    if (!escaped) return indexOf(json.text, start, end);
    byte[] key = json.unescape(start, end).getBytes();
    return indexOf(key, 0, key.length);
  }

  private int indexOf(byte[] text, int start, int end) {
    for (int i = 0; i < keys.length; i++)
      if (keys[i].length == end - start && Arrays.equals(text, start, end, keys[i], 0, keys[i].length)) return i;
    return -1;
  }
}
