package penstock.kernel;

import java.io.Serializable;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * A fixed number of buckets that keys belong to. Spark groups by these instead of by keys: it sorts small numbers
 * instead of texts, and one timer serves many keys ({@link Due}).
 *
 * <p>Every partition of state has the same number of them: of all numbers those are taken that Spark's own
 * hash sends there. A key never changes its bucket, since the number of partitions is fixed for a
 * checkpoint's life.
 */
final class Buckets implements Serializable {
  private static final int FOR_A_PARTITION = 32;
  /** The seed of Spark's partitioning. */
  private static final int SEED = 42;

  private final int[] numbers;

  Buckets(int partitions) {
    numbers = new int[partitions * FOR_A_PARTITION];
    int[] found = new int[partitions];
    for (int number = 0, taken = 0; taken < numbers.length; number++) {
      int partition = Math.floorMod(Murmur3_x86_32.hashInt(number, SEED), partitions);
      if (found[partition] == FOR_A_PARTITION) continue;
      found[partition]++;
      numbers[taken++] = number;
    }
  }

  int count() {
    return numbers.length;
  }

  /** Which of them, counted from 0, a key belongs to. */
  int placeOf(Key key) {
    return Math.floorMod(key.hashCode(), numbers.length);
  }

  /** What Spark knows one by. */
  int number(int place) {
    return numbers[place];
  }
}
