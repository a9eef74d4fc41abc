package penstock.kernel;

import java.io.Serializable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * One measure of a session: how an event's value is folded in, and how two sessions' values become one.
 *
 * <p>Nulls are passed over by every operation. {@code first} and {@code last} go by event time, then by
 * partition and offset, so that the result does not depend on the order in which events arrive.
 */
final class Measure implements Serializable {
  enum Operation { COUNT, SUM, MIN, MAX, FIRST, LAST }

  final String name;
  final Operation operation;
  final DataType type;
  /** Where the event's value stands in the input row; negative for {@code count(*)}. */
  final int column;

  Measure(String name, Operation operation, DataType type, int column) {
    this.name = name;
    this.operation = operation;
    this.type = type;
    this.column = column;
    if (!type.equals(DataTypes.LongType) && !type.equals(DataTypes.DoubleType)
        && !type.equals(DataTypes.StringType) && !type.equals(DataTypes.BooleanType))
      throw new IllegalArgumentException(name + ": a measure is a bigint, double, string or boolean, not " + type.simpleString());
  }

  boolean isOrdered() {
    return operation == Operation.FIRST || operation == Operation.LAST;
  }

  /** The value of two parts; for ordered measures see {@link #replaces}. */
  Object merge(Object a, Object b) {
    if (a == null) return b;
    if (b == null) return a;
    switch (operation) {
      case COUNT: return (Long) a + (Long) b;
      case SUM: return a instanceof Long ? (Object) ((Long) a + (Long) b) : (Object) ((Double) a + (Double) b);
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
}
