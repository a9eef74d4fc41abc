package penstock.kernel;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the stateful operator tells of, as columns. It leaves the operator as bytes, for the reason that it
 * comes there so ({@link Part}); this function, on the other side, makes a row of them.
 */
public final class Told implements ScalarFunction<InternalRow> {
  /** What every row starts with; the measures follow. */
  public static final String OUTPUT =
      "kind string, span_id string, key string, start_ms long, end_ms long, version long, is_final boolean, "
          + "new_events long, oldest_created_ms long, partition int, offset long, ts long, reason string, raw binary, "
          + "new_spans long";
  private static final int OUTPUT_COLUMNS = 15;

  /** Kinds of rows; their numbers are in no state, only between two operators of one batch. */
  enum Kind {
    LIVE, FINAL, CORRECTED, RETRACTED, LATE, DUPLICATE, REJECTED, COUNTED;

    private final UTF8String text = UTF8String.fromString(name().toLowerCase());
  }

  private static final Kind[] KINDS = Kind.values();

  private final Measure[] measures;
  private final StructType result;

  Told(Measure[] measures) {
    this.measures = measures;
    StructType columns = StructType.fromDDL(OUTPUT);
    for (Measure measure : measures) for (var field : measure.columns().fields()) columns = columns.add(field);
    this.result = columns;
  }

  @Override public DataType[] inputTypes() { return new DataType[] {DataTypes.BinaryType}; }
  @Override public DataType resultType() { return result; }
  @Override public boolean isResultNullable() { return false; }
  @Override public String name() { return "told"; }

  /** Called by generated code; its name and signature are Spark's convention. */
  public InternalRow invoke(byte[] bytes) {
    Wire wire = new Wire(bytes);
    Object[] row = new Object[result.size()];
    Kind kind = KINDS[wire.getByte()];
    byte[] key = wire.getBytes();
    row[0] = kind.text;
    row[2] = UTF8String.fromBytes(key);
    if (kind.compareTo(Kind.RETRACTED) <= 0) span(kind, key, wire, row);
    else if (kind == Kind.COUNTED) counted(wire, row);
    else aside(wire, row);
    return new GenericInternalRow(row);
  }

  private void span(Kind kind, byte[] key, Wire wire, Object[] row) {
    long startMs = wire.getLong();
    row[1] = identity(key, startMs, wire.getLong());
    row[3] = startMs;
    row[4] = startMs + wire.getLong();
    row[5] = wire.getLong();
    row[6] = wire.getByte() == 1;
    row[7] = 0L;
    if (kind == Kind.RETRACTED) {
      String what = wire.getByte() == 1 ? "merged into " : "moved to ";
      row[12] = UTF8String.concat(UTF8String.fromString(what), identity(key, wire.getLong(), wire.getLong()));
      return;
    }
    long events = wire.getLong();
    row[7] = events;
    if (events > 0) row[8] = startMs + wire.getLong();
    int column = OUTPUT_COLUMNS;
    for (Measure measure : measures)
      column = measure.show(wire.getByte() == 0 ? null : measure.read(wire), row, column);
  }

  private void counted(Wire wire, Object[] row) {
    row[6] = false;
    row[7] = wire.getLong();
    row[8] = wire.getLong();
    row[14] = wire.getLong();
  }

  private void aside(Wire wire, Object[] row) {
    row[6] = false;
    row[7] = 0L;
    row[9] = (int) wire.getLong();
    row[10] = wire.getLong();
    if (wire.getByte() == 1) row[11] = wire.getLong();
    if (wire.getByte() == 1) row[8] = wire.getLong();
    row[12] = UTF8String.fromBytes(wire.getBytes());
    if (wire.getByte() == 1) row[13] = wire.getBytes();
  }

  private static UTF8String identity(byte[] key, long startMs, long born) {
    String start = born == 0 ? "@" + startMs : "@" + startMs + "#" + born;
    return UTF8String.concat(UTF8String.fromBytes(key), UTF8String.fromString(start));
  }

  static void writeSpan(Wire wire, Kind kind, byte[] key, Span span, boolean isFinal, Measure[] measures) {
    writeHead(wire, kind, key, span.startMs, span.born, span.endMs, span.version, isFinal);
    wire.putLong(span.newEvents);
    if (span.newEvents > 0) wire.putLong(span.oldestCreatedMs - span.startMs);
    for (int i = 0; i < measures.length; i++) {
      wire.putByte(span.values[i] == null ? 0 : 1);
      if (span.values[i] != null) measures[i].write(wire, span.values[i]);
    }
  }

  static void writeCounted(Wire wire, long events, long createdMs, long newSpans) {
    wire.putByte(Kind.COUNTED.ordinal()).putLong(0).putLong(events).putLong(createdMs).putLong(newSpans);
  }

  static void writeRetracted(Wire wire, byte[] key, Span.Told told, boolean merged, Span into) {
    writeHead(wire, Kind.RETRACTED, key, told.startMs, told.born, told.endMs, told.version + 1, told.closed);
    wire.putByte(merged ? 1 : 0).putLong(into.startMs).putLong(into.born);
  }

  private static void writeHead(
      Wire wire, Kind kind, byte[] key, long startMs, long born, long endMs, long version, boolean isFinal) {
    wire.putByte(kind.ordinal()).putBytes(key).putLong(startMs).putLong(born).putLong(endMs - startMs).putLong(version);
    wire.putByte(isFinal ? 1 : 0);
  }

  static void writeAside(Wire wire, Kind kind, byte[] key, int partition, long offset, long ts, String reason) {
    wire.putByte(kind.ordinal()).putBytes(key).putLong(partition).putLong(offset).putByte(1).putLong(ts);
    wire.putByte(0).putBytes(UTF8String.fromString(reason).getBytes()).putByte(0);
  }
}
