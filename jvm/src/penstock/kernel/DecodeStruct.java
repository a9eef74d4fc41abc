package penstock.kernel;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;

/** An object with known fields. Others are passed over; of a field that stands twice the last value counts. */
final class DecodeStruct extends DecodeType {
  private final String[] names;
  private final DecodeType[] types;
  /** Of the fields, and behind them of some that are passed over. */
  private final byte[][] keys;
  /** Each key as producers write it: in quotes, with the colon right behind. */
  private final byte[][] tokens;
  /**
   * The field that followed each field the last time, and at the end the one that came first: producers write
   * fields in the same order each time. Only a guess, so threads may share it.
   */
  private final int[] following;

  /** @param passed names that producers write and nobody asks for: a name that is known is passed over sooner */
  DecodeStruct(StructType type, List<String> passed, Epoch epoch) {
    super("struct");
    names = type.fieldNames();
    types = new DecodeType[names.length];
    for (int i = 0; i < names.length; i++) types[i] = of(type.apply(i).dataType(), epoch);
    int known = names.length + passed.size();
    keys = new byte[known][];
    tokens = new byte[known][];
    following = new int[known + 1];
    for (int i = 0; i < known; i++) {
      String name = i < names.length ? names[i] : passed.get(i - names.length);
      keys[i] = name.getBytes(StandardCharsets.UTF_8);
      tokens[i] = ("\"" + name + "\":").getBytes(StandardCharsets.UTF_8);
      following[i] = i + 1 < known ? i + 1 : 0;
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
      int previous = keys.length;
      do {
        int field = field(json, previous);
        if (field < 0 || field >= types.length) json.skip();
        else values[field] = value(json, field);
        if (field >= 0) previous = field;
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

  /** Moves past a key and its colon; the number of the field, or -1 for one whose name is not known. */
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
