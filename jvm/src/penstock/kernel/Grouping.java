package penstock.kernel;

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataType;
import scala.Tuple2;

/**
 * Sessions or windows, put together for a pipeline: the way in ({@link Part}), the two stages ({@link Combine}
 * before the shuffle, {@link Spans} behind it) and the way out ({@link Told}).
 */
public final class Grouping {
  private static final Encoder<Tuple2<byte[], byte[]>> KEYED = Encoders.tuple(Encoders.BINARY(), Encoders.BINARY());

  private final Shape shape;
  private final Measure[][] layouts;
  private final Measure[] measures;

  private Grouping(Shape shape, List<List<List<String>>> layouts) {
    this.shape = shape;
    this.layouts = layouts.stream().map(Grouping::layout).toArray(Measure[][]::new);
    this.measures = this.layouts[this.layouts.length - 1];
  }

  /** @param layouts name, operation and type of each measure, for each time that they were changed */
  public static Grouping sessions(long gapMs, long lengthMs, List<List<List<String>>> layouts) {
    return new Grouping(new Shape.Gap(gapMs, lengthMs), layouts);
  }

  public static Grouping windows(long sizeMs, long stepMs, List<List<List<String>>> layouts) {
    return new Grouping(new Shape.Fixed(sizeMs, stepMs), layouts);
  }

  private static Measure[] layout(List<List<String>> described) {
    return described.stream()
        .map(m -> new Measure(m.get(0), Measure.Operation.valueOf(m.get(1).toUpperCase()), DataType.fromDDL(m.get(2))))
        .toArray(Measure[]::new);
  }

  /** Makes {@code penstock.part.NAME} and {@code penstock.told.NAME} known to Spark SQL. */
  public void register(String name) {
    Functions.register("part." + name, input -> new Part(input, measures));
    Functions.register("told." + name, input -> new Told(measures));
  }

  /**
   * From (key, part) to what is told, both as bytes.
   *
   * @param combine whether to fold before the shuffle where it pays; with ids to remember it must not
   */
  public Dataset<byte[]> apply(Dataset<Row> parts, long latenessMs, long withinMs, boolean combine) {
    Dataset<Tuple2<byte[], byte[]>> keyed = parts.as(KEYED);
    if (combine && withinMs == 0) keyed = keyed.mapPartitions(new Combine(shape, measures), KEYED);
    return keyed.toDF("key", "part")
        .groupBy("key")
        .as(Encoders.BINARY(), KEYED)
        .transformWithState(
            new Spans(shape, layouts, latenessMs, withinMs), TimeMode.EventTime(), OutputMode.Append(), Encoders.BINARY());
  }
}
