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
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One measure of a span: what an event's value is held as, and how two values become one.
 *
 * <p>Nulls are passed over by every operation. No result depends on the order in which events arrive:
 * {@code first} and {@code last} go by event time, then by partition and offset; sums do not round on the way.
 */
final class Measure implements Serializable {
  enum Operation { COUNT, SUM, MIN, MAX, FIRST, LAST, DISTINCT }

  private static final long SEED = 42;

  final String name;
  final Operation operation;
  /** Of the event's values. */
  final DataType type;

  Measure(String name, Operation operation, DataType type) {
    this.name = name;
    this.operation = operation;
    this.type = type;
    if (!holds(type)) throw new IllegalArgumentException(name + ": a measure cannot hold a " + type.simpleString());
  }

  private static boolean holds(DataType type) {
    return type instanceof LongType || type instanceof DoubleType || type instanceof StringType || type instanceof BooleanType
        || type instanceof DecimalType || type instanceof DateType || type instanceof TimestampType;
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

  /** What is held of one event's value; null where it has none. */
  Object of(InternalRow event, int column) {
    if (event.isNullAt(column)) return null;
    switch (operation) {
      case COUNT: return 1L;
      case DISTINCT: return new Distinct(hash(event, column));
      case SUM:
        if (type instanceof DoubleType) return new ExactSum(event.getDouble(column));
        // falls through: the others are held as they are
      default: return plain(event, column);
    }
  }

  private Object plain(InternalRow event, int column) {
    if (type instanceof LongType || type instanceof TimestampType) return event.getLong(column);
    if (type instanceof DateType) return (long) event.getInt(column);
    if (type instanceof DoubleType) return event.getDouble(column) + 0.0;  // no -0.0
    if (type instanceof BooleanType) return event.getBoolean(column);
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return event.getDecimal(column, decimal.precision(), decimal.scale()).toJavaBigDecimal();
    }
    return event.getUTF8String(column);
  }

  private long hash(InternalRow event, int column) {
    Object value = plain(event, column);
    if (value instanceof Long) return XXH64.hashLong((Long) value, SEED);
    if (value instanceof Double) return XXH64.hashLong(Double.doubleToLongBits((Double) value), SEED);
    if (value instanceof Boolean) return XXH64.hashLong((Boolean) value ? 1 : 0, SEED);
    return hash(value instanceof BigDecimal ? UTF8String.fromString(value.toString()) : (UTF8String) value);
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
        if (a instanceof Long) return (Long) a + (Long) b;
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

  /** Whether an ordered measure takes the candidate, given how its position compares with the holder's. */
  boolean replaces(int candidateAgainstHolder) {
    return operation == Operation.FIRST ? candidateAgainstHolder < 0 : candidateAgainstHolder > 0;
  }

  @SuppressWarnings("unchecked")
  private static int compare(Object a, Object b) {
    return ((Comparable<Object>) a).compareTo(b);
  }

  void write(Wire wire, Object value) {
    if (value instanceof Long) wire.putLong((Long) value);
    else if (value instanceof Double) wire.putFixed(Double.doubleToRawLongBits((Double) value));
    else if (value instanceof Boolean) wire.putByte((Boolean) value ? 1 : 0);
    else if (value instanceof UTF8String) wire.putBytes(((UTF8String) value).getBytes());
    else if (value instanceof BigDecimal) wire.putBytes(((BigDecimal) value).unscaledValue().toByteArray());
    else if (value instanceof ExactSum) ((ExactSum) value).write(wire);
    else ((Distinct) value).write(wire);
  }

  Object read(Wire wire) {
    if (operation == Operation.COUNT) return wire.getLong();
    if (operation == Operation.DISTINCT) return Distinct.read(wire);
    if (type instanceof DoubleType && operation == Operation.SUM) return ExactSum.read(wire);
    if (type instanceof DoubleType) return Double.longBitsToDouble(wire.getFixed());
    if (type instanceof BooleanType) return wire.getByte() == 1;
    if (type instanceof StringType) return UTF8String.fromBytes(wire.getBytes());
    if (type instanceof DecimalType) return new BigDecimal(new BigInteger(wire.getBytes()), ((DecimalType) type).scale());
    return wire.getLong();
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
    else if (value instanceof BigDecimal) row[column] = decimal((BigDecimal) value);
    else if (value != null && type instanceof DateType) row[column] = ((Long) value).intValue();
    else row[column] = value;
    return column + 1;
  }

  /** Null where it has more digits than any decimal of Spark's, as Spark's own sum has it. */
  private Decimal decimal(BigDecimal value) {
    DecimalType shown = (DecimalType) columns().apply(0).dataType();
    return value.precision() > shown.precision() ? null : Decimal.apply(value, shown.precision(), shown.scale());
  }
}
