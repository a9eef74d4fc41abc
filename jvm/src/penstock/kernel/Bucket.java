package penstock.kernel;

import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * Which of a fixed number of buckets the key of a part belongs to. Spark groups by these instead of by keys: it
 * sorts small numbers instead of texts, and one timer serves many keys ({@link Due}).
 *
 * <p>Every partition of state has the same number of them: of all numbers those are taken that Spark's own
 * hash sends there. A key never changes its bucket, since the number of partitions is fixed for a
 * checkpoint's life.
 */
public final class Bucket implements ScalarFunction<Integer> {
  private static final int FOR_A_PARTITION = 32;
  /** The seed of Spark's partitioning. */
  private static final int SEED = 42;

  private final int[] buckets;

  Bucket(int partitions) {
    buckets = new int[partitions * FOR_A_PARTITION];
    int[] found = new int[partitions];
    for (int number = 0, taken = 0; taken < buckets.length; number++) {
      int partition = Math.floorMod(Murmur3_x86_32.hashInt(number, SEED), partitions);
      if (found[partition] == FOR_A_PARTITION) continue;
      found[partition]++;
      buckets[taken++] = number;
    }
  }

  @Override public DataType[] inputTypes() { return new DataType[] {DataTypes.BinaryType}; }
  @Override public DataType resultType() { return DataTypes.IntegerType; }
  @Override public boolean isResultNullable() { return false; }
  @Override public String name() { return "bucket"; }

  /** Called by generated code; its name and signature are Spark's convention. */
  public int invoke(byte[] part) {
    return buckets[Math.floorMod(new Wire(part).getKey().hashCode(), buckets.length)];
  }
}
