package penstock.kernel;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One measure of a span: what an event's value is held as, and how two values become one.
 *
 * <p>Nulls are passed over by every operation. No result depends on the order in which events arrive:
 * {@code first} and {@code last} go by event time, then by partition and offset; sums neither round nor overflow
 * on the way. A sum that its column cannot hold is shown as null, and held as it is: events to come may bring it
 * back. Null for good, as Spark's own sum has it, would depend on which events were added first.
 */
final class Measure implements Serializable {
  enum Operation { COUNT, SUM, MIN, MAX, FIRST, LAST, DISTINCT }

  /** What a value is held as. */
  private enum Held { LONG, LONG_SUM, DOUBLE, BOOLEAN, TEXT, DECIMAL, EXACT_SUM, DISTINCT }

  private static final long SEED = 42;

  final String name;
  final Operation operation;
  /** Of the event's values. */
  final DataType type;
  private final Held held;

  Measure(String name, Operation operation, DataType type) {
    this.name = name;
    this.operation = operation;
    this.type = type;
    this.held = held(name, operation, type);
  }

  private static Held held(String name, Operation operation, DataType type) {
    if (operation == Operation.DISTINCT) return Held.DISTINCT;
    if (operation == Operation.SUM && type instanceof LongType) return Held.LONG_SUM;
    if (operation == Operation.COUNT || type instanceof LongType || type instanceof TimestampType || type instanceof DateType)
      return Held.LONG;
    if (type instanceof DoubleType) return operation == Operation.SUM ? Held.EXACT_SUM : Held.DOUBLE;
    if (type instanceof BooleanType) return Held.BOOLEAN;
    if (type instanceof StringType) return Held.TEXT;
    if (type instanceof DecimalType) return Held.DECIMAL;
    throw new IllegalArgumentException(name + ": a measure cannot hold a " + type.simpleString());
  }

  boolean isOrdered() {
    return operation == Operation.FIRST || operation == Operation.LAST;
  }

  /** The columns that a row has of it. */
  StructType columns() {
    switch (operation) {
      case COUNT: return new StructType().add(name, DataTypes.LongType);
      case DISTINCT: return new StructType().add(name, DataTypes.LongType).add(name + "_exact", DataTypes.BooleanType);
      case SUM:
        if (type instanceof DecimalType)
          return new StructType().add(name, DataTypes.createDecimalType(DecimalType.MAX_PRECISION(), ((DecimalType) type).scale()));
        // falls through: a sum of others has their type
      default: return new StructType().add(name, type);
    }
  }

  /** Writes what is held of one event's value, behind a byte that says whether there is one. */
  void write(Wire wire, InternalRow event, int column) {
    boolean missing = event.isNullAt(column);
    wire.putByte(missing ? 0 : 1);
    if (missing) return;
    switch (held) {
      case LONG:
        wire.putLong(operation == Operation.COUNT ? 1 : type instanceof DateType ? event.getInt(column) : event.getLong(column));
        return;
      case LONG_SUM: wire.putLong(event.getLong(column)); return;
      case DOUBLE: wire.putFixed(Double.doubleToRawLongBits(event.getDouble(column) + 0.0)); return;  // no -0.0
      case BOOLEAN: wire.putByte(event.getBoolean(column) ? 1 : 0); return;
      case TEXT: wire.putText(event.getUTF8String(column)); return;
      case DECIMAL: wire.putBytes(decimal(event, column).unscaledValue().toByteArray()); return;
      case EXACT_SUM: ExactSum.write(wire, event.getDouble(column)); return;
      default: Distinct.write(wire, hash(event, column));
    }
  }

  private BigDecimal decimal(InternalRow event, int column) {
    DecimalType decimal = (DecimalType) type;
    return event.getDecimal(column, decimal.precision(), decimal.scale()).toJavaBigDecimal();
  }

  private long hash(InternalRow event, int column) {
    if (type instanceof LongType || type instanceof TimestampType) return XXH64.hashLong(event.getLong(column), SEED);
    if (type instanceof DateType) return XXH64.hashLong(event.getInt(column), SEED);
    if (type instanceof DoubleType) return XXH64.hashLong(Double.doubleToLongBits(event.getDouble(column) + 0.0), SEED);
    if (type instanceof BooleanType) return XXH64.hashLong(event.getBoolean(column) ? 1 : 0, SEED);
    if (type instanceof DecimalType) return hash(UTF8String.fromString(decimal(event, column).toString()));
    return hash(event.getUTF8String(column));
  }

  static long hash(UTF8String text) {
    return XXH64.hashUTF8String(text, SEED);
  }

  /** Into an empty place, as a value of its own: what is merged later must not change the other's. */
  Object copy(Object value) {
    if (value instanceof ExactSum) return ((ExactSum) value).copy();
    if (value instanceof Distinct) return ((Distinct) value).copy();
    return value;
  }

  /** The value of two parts, the first of which may be changed; for ordered measures see {@link #replaces}. */
  Object merge(Object a, Object b) {
    switch (operation) {
      case COUNT: return (Long) a + (Long) b;
      case SUM:
        if (held == Held.LONG_SUM) return add((Number) a, (Number) b);
        if (a instanceof BigDecimal) return ((BigDecimal) a).add((BigDecimal) b);
        ((ExactSum) a).add((ExactSum) b);
        return a;
      case DISTINCT:
        ((Distinct) a).add((Distinct) b);
        return a;
      case MIN: return compare(a, b) <= 0 ? a : b;
      case MAX: return compare(a, b) >= 0 ? a : b;
      default: throw new IllegalStateException(operation + " goes by position");
    }
  }

  /** A Long wherever the sum fits one, else a BigInteger. */
  private static Number add(Number a, Number b) {
    if (a instanceof Long && b instanceof Long) {
      long x = (Long) a;
      long y = (Long) b;
      long sum = x + y;
      if (((x ^ sum) & (y ^ sum)) >= 0) return sum;  // without its sign differing from that of both
    }
    BigInteger sum = integer(a).add(integer(b));
    if (sum.bitLength() < Long.SIZE) return sum.longValue();
    return sum;
  }

  private static BigInteger integer(Number value) {
    return value instanceof Long ? BigInteger.valueOf((Long) value) : (BigInteger) value;
  }

  /** Whether an ordered measure takes the candidate, given how its position compares with the holder's. */
  boolean replaces(int candidateAgainstHolder) {
    return operation == Operation.FIRST ? candidateAgainstHolder < 0 : candidateAgainstHolder > 0;
  }

  @SuppressWarnings("unchecked")
  private static int compare(Object a, Object b) {
    return ((Comparable<Object>) a).compareTo(b);
  }

  void write(Wire wire, Object value) {
    switch (held) {
      case LONG: wire.putLong((Long) value); return;
      case LONG_SUM: wire.putInteger((Number) value); return;
      case DOUBLE: wire.putFixed(Double.doubleToRawLongBits((Double) value)); return;
      case BOOLEAN: wire.putByte((Boolean) value ? 1 : 0); return;
      case TEXT: wire.putText((UTF8String) value); return;
      case DECIMAL: wire.putBytes(((BigDecimal) value).unscaledValue().toByteArray()); return;
      case EXACT_SUM: ((ExactSum) value).write(wire); return;
      default: ((Distinct) value).write(wire);
    }
  }

  Object read(Wire wire) {
    switch (held) {
      case LONG: return wire.getLong();
      case LONG_SUM: return wire.getInteger();
      case DOUBLE: return Double.longBitsToDouble(wire.getFixed());
      case BOOLEAN: return wire.getByte() == 1;
      case TEXT: return UTF8String.fromBytes(wire.getBytes());
      case DECIMAL: return new BigDecimal(new BigInteger(wire.getBytes()), ((DecimalType) type).scale());
      case EXACT_SUM: return ExactSum.read(wire);
      default: return Distinct.read(wire);
    }
  }

  /** Passes over what {@link #read} would read. */
  void skip(Wire wire) {
    if (held == Held.TEXT) wire.skip((int) wire.getLong());
    else read(wire);
  }

  /** {@link #merge} with what stands on the wire, without making an object of it where that is easy. */
  Object mergeRead(Object held, Wire wire) {
    if (this.held == Held.EXACT_SUM) {
      ((ExactSum) held).addRead(wire);
      return held;
    }
    return merge(held, read(wire));
  }

  /** Puts the value into a row, as Spark holds it; answers the place after it. */
  int show(Object value, Object[] row, int column) {
    if (operation == Operation.DISTINCT) {
      Distinct distinct = (Distinct) value;
      row[column] = distinct == null ? 0L : distinct.count();
      row[column + 1] = distinct == null || distinct.isExact();
      return column + 2;
    }
    if (operation == Operation.COUNT) row[column] = value == null ? 0L : value;
    else if (value instanceof ExactSum) row[column] = ((ExactSum) value).value();
    else if (value instanceof BigInteger) row[column] = null;
    else if (value instanceof BigDecimal) row[column] = decimal((BigDecimal) value);
    else if (value != null && type instanceof DateType) row[column] = ((Long) value).intValue();
    else row[column] = value;
    return column + 1;
  }

  /** Null where it has more digits than any decimal of Spark's. */
  private Decimal decimal(BigDecimal value) {
    DecimalType shown = (DecimalType) columns().apply(0).dataType();
    return value.precision() > shown.precision() ? null : Decimal.apply(value, shown.precision(), shown.scale());
  }
}
