package penstock.kernel;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * An event, as a function of its columns, in the bytes in which it travels to the stateful operator: the kind of part
 * that it is, its time, its key, and what else there is of it. So do the spans that {@link Combine} makes of several,
 * and the records that were set aside, without a time. Bytes, because a row object for every event costs more than
 * what is done with it. Ticks have only a time, and travel no further than to {@link Packing}.
 */
public final class Part implements ScalarFunction<byte[]> {
  /** What every event starts with; the values of the measures follow. */
  public static final String INPUT =
      "key string, ts long, created_ms long, partition int, offset long, id string, reason string, raw binary,"
          + " tick_ms long";
  private static final int KEY = 0, TS = 1, CREATED = 2, PARTITION = 3, OFFSET = 4, ID = 5, REASON = 6, RAW = 7, TICK_MS = 8;
  private static final StructType HEAD = StructType.fromDDL(INPUT);
  private static final int INPUT_COLUMNS = HEAD.size();
  static final byte EVENT = 0, SPAN = 1, ASIDE = 2, TICK = 3;

  private final DataType input;
  private final Measure[] measures;
  private transient Wire wire;

  Part(DataType input, Measure[] measures) {
    this.input = input;
    this.measures = measures;
    StructType given = (StructType) input;
    for (int i = 0; i < INPUT_COLUMNS; i++)
      if (!given.apply(i).name().equals(HEAD.apply(i).name()) || !given.apply(i).dataType().equals(HEAD.apply(i).dataType()))
        throw new IllegalArgumentException("an event starts with " + INPUT + ", not with " + given.sql());
  }

  @Override public DataType[] inputTypes() { return new DataType[] {input}; }
  @Override public DataType resultType() { return DataTypes.BinaryType; }
  @Override public boolean isResultNullable() { return false; }
  @Override public String name() { return "part"; }

  /** Called by generated code; its name and signature are Spark's convention. */
  public byte[] invoke(InternalRow event) {
    if (wire == null) wire = new Wire(256);
    if (!event.isNullAt(REASON)) putAside(event);
    else if (event.isNullAt(TS)) wire.putByte(TICK).putLong(event.getLong(TICK_MS));
    else putEvent(event);
    return wire.take();
  }

  private void putEvent(InternalRow event) {
    long ts = event.getLong(TS);
    wire.putByte(EVENT).putLong(ts).putText(event.getUTF8String(KEY));
    wire.putLong(event.isNullAt(CREATED) ? 0 : event.getLong(CREATED) - ts);
    wire.putLong(event.getInt(PARTITION)).putLong(event.getLong(OFFSET));
    wire.putLong(event.isNullAt(ID) ? 0 : Measure.hash(event.getUTF8String(ID)));
    for (int i = 0; i < measures.length; i++) measures[i].write(wire, event, INPUT_COLUMNS + i);
  }

  private void putAside(InternalRow event) {
    wire.putByte(ASIDE).putText(event.getUTF8String(KEY));
    wire.putLong(event.getInt(PARTITION)).putLong(event.getLong(OFFSET));
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

  static byte kind(byte[] part) {
    return part[0];
  }

  /** When the event or tick was; 0 for what has no time of its own. */
  static long timeMs(byte[] part) {
    Wire wire = new Wire(part);
    byte kind = wire.getByte();
    return kind == EVENT || kind == TICK ? wire.getLong() : 0;
  }

  /** Of all but ticks. */
  static Key key(byte[] part) {
    Wire wire = new Wire(part);
    if (wire.getByte() == EVENT) wire.getLong();
    return wire.getKey();
  }

  /** Takes an event into a span that it joins, or into a new one, behind its byte, its time and its key. */
  static Span readEvent(Wire wire, long timeMs, Span home, Measure[] measures) {
    Span span = home != null ? home : new Span(timeMs, timeMs, measures.length);
    if (home == null) span.places = new Places(1);
    span.oldestCreatedMs = Math.min(span.oldestCreatedMs, timeMs + wire.getLong());
    int partition = (int) wire.getLong();
    long offset = wire.getLong();
    span.places.add(partition, offset, timeMs, wire.getLong());
    span.newEvents++;
    span.changed = true;
    span.absorbEvent(measures, wire, timeMs, partition, offset);
    return span;
  }

  static void writeSpan(byte[] key, Span span, Measure[] measures, Wire wire) {
    wire.putByte(SPAN).putBytes(key).putLong(span.oldestCreatedMs - span.startMs);
    span.places.write(wire);
    span.write(wire, measures);
  }

  /** Reads what {@link #writeSpan} wrote, behind its byte and its key. */
  static Span readSpan(Wire wire, Measure[] measures) {
    long age = wire.getLong();
    Places places = Places.read(wire);
    Span span = Span.read(wire, measures);
    span.oldestCreatedMs = span.startMs + age;
    span.places = places;
    span.newEvents = places.count();
    span.changed = true;
    return span;
  }
}
