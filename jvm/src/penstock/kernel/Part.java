package penstock.kernel;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * An event, as a function of its columns, in the bytes in which it travels to the stateful operator. So do the
 * spans that {@link Combine} makes of several, and the records that were set aside. Bytes, because a row
 * object for every event costs more than what is done with it.
 */
public final class Part implements ScalarFunction<byte[]> {
  /** What every event starts with; the values of the measures follow. */
  public static final String INPUT =
      "ts long, created_ms long, partition int, offset long, id string, reason string, raw binary";
  private static final int TS = 0, CREATED = 1, PARTITION = 2, OFFSET = 3, ID = 4, REASON = 5, RAW = 6;
  private static final int INPUT_COLUMNS = 7;
  static final byte EVENTS = 0, ASIDE = 1;

  private final DataType input;
  private final Measure[] measures;
  private transient Wire wire;

  Part(DataType input, Measure[] measures) {
    this.input = input;
    this.measures = measures;
  }

  @Override public DataType[] inputTypes() { return new DataType[] {input}; }
  @Override public DataType resultType() { return DataTypes.BinaryType; }
  @Override public boolean isResultNullable() { return false; }
  @Override public String name() { return "part"; }

  /** Called by generated code; its name and signature are Spark's convention. */
  public byte[] invoke(InternalRow event) {
    if (wire == null) wire = new Wire(256);
    if (event.isNullAt(REASON)) putEvent(event);
    else putAside(event);
    return wire.take();
  }

  private void putEvent(InternalRow event) {
    long ts = event.getLong(TS);
    Span span = new Span(ts, ts, measures.length);
    for (int i = 0; i < measures.length; i++) span.values[i] = measures[i].of(event, INPUT_COLUMNS + i);
    span.oldestCreatedMs = event.isNullAt(CREATED) ? ts : event.getLong(CREATED);
    span.places = new Places(1);
    long id = event.isNullAt(ID) ? 0 : Measure.hash(event.getUTF8String(ID));
    span.places.add(event.getInt(PARTITION), event.getLong(OFFSET), ts, id);
    write(span, measures, wire);
  }

  private void putAside(InternalRow event) {
    wire.putByte(ASIDE).putLong(event.getInt(PARTITION)).putLong(event.getLong(OFFSET));
    putNullable(event, TS);
    putNullable(event, CREATED);
    wire.putBytes(event.getUTF8String(REASON).getBytes());
    wire.putByte(event.isNullAt(RAW) ? 0 : 1);
    if (!event.isNullAt(RAW)) wire.putBytes(event.getBinary(RAW));
  }

  private void putNullable(InternalRow event, int column) {
    wire.putByte(event.isNullAt(column) ? 0 : 1);
    if (!event.isNullAt(column)) wire.putLong(event.getLong(column));
  }

  static void write(Span span, Measure[] measures, Wire wire) {
    wire.putByte(EVENTS).putLong(span.oldestCreatedMs - span.startMs);
    span.places.write(wire);
    span.write(wire, measures, span.places.count() == 1);
  }

  /** Reads events, behind the byte that says that it is some. */
  static Span read(Wire wire, Measure[] measures) {
    long age = wire.getLong();
    Places places = Places.read(wire);
    Span span = Span.read(wire, measures, places.count() == 1 ? places.first() : null);
    span.oldestCreatedMs = span.startMs + age;
    span.places = places;
    span.newEvents = places.count();
    span.changed = true;
    return span;
  }
}
