package penstock.kernel;

import java.util.LinkedHashMap;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** An object whose keys are values too. Of a key that stands twice the last value counts, as in a struct. */
final class DecodeMap extends DecodeType {
  private final DecodeType values;

  DecodeMap(DecodeType values) {
    super("map");
    this.values = values;
  }

  @Override Object value(JsonCursor json, byte first) throws Malformed {
    if (first != '{') throw unexpected(json, first);
    LinkedHashMap<UTF8String, Object> entries = new LinkedHashMap<>();
    json.enter('{');
    if (json.peek() != '}') {
      do {
        UTF8String key = json.string();
        json.expect(':');
        entries.put(key, entry(json, key));
      } while (json.take(','));
    }
    json.leave('}');
    return new ArrayBasedMapData(
        new GenericArrayData(entries.keySet().toArray()), new GenericArrayData(entries.values().toArray()));
  }

  private Object entry(JsonCursor json, UTF8String key) throws Malformed {
    try {
      return values.read(json);
    } catch (Malformed malformed) {
      throw malformed.inEntry(key.toString());
    }
  }
}
