package penstock.kernel;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.util.GenericArrayData;

/** An array of one type, in which null may stand. */
final class DecodeArray extends DecodeType {
  private final DecodeType items;

  DecodeArray(DecodeType items) {
    super("array");
    this.items = items;
  }

  @Override Object value(JsonCursor json, byte first) throws Malformed {
    if (first != '[') throw unexpected(json, first);
    ArrayList<Object> values = new ArrayList<>();
    json.enter('[');
    if (json.peek() != ']') do values.add(item(json, values.size())); while (json.take(','));
    json.leave(']');
    return new GenericArrayData(values.toArray());
  }

  private Object item(JsonCursor json, int index) throws Malformed {
    try {
      return items.read(json);
    } catch (Malformed malformed) {
      throw malformed.inItem(index);
    }
  }
}
