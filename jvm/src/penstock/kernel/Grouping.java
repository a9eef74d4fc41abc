package penstock.kernel;

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataType;

/**
 * Sessions or windows, put together for a pipeline: the way in ({@link Part}), the two stages ({@link Combine}
 * before the shuffle, {@link Spans} behind it) and the way out ({@link Told}).
 */
public final class Grouping {
  private final String name;
  private final int partitions;
  private final Shape shape;
  private final Measure[][] layouts;
  private final Measure[] measures;

  private Grouping(String name, int partitions, Shape shape, List<List<List<String>>> layouts) {
    this.name = name;
    this.partitions = partitions;
    this.shape = shape;
    this.layouts = layouts.stream().map(Grouping::layout).toArray(Measure[][]::new);
    this.measures = this.layouts[this.layouts.length - 1];
  }

  /**
   * @param name under which Spark SQL knows its functions
   * @param partitions of state
   * @param layouts name, operation and type of each measure, for each time that they were changed
   */
  public static Grouping sessions(
      String name, int partitions, long gapMs, long lengthMs, List<List<List<String>>> layouts) {
    return new Grouping(name, partitions, new Shape.Gap(gapMs, lengthMs), layouts);
  }

  public static Grouping windows(
      String name, int partitions, long sizeMs, long stepMs, List<List<List<String>>> layouts) {
    return new Grouping(name, partitions, new Shape.Fixed(sizeMs, stepMs), layouts);
  }

  private static Measure[] layout(List<List<String>> described) {
    return described.stream()
        .map(m -> new Measure(m.get(0), Measure.Operation.valueOf(m.get(1).toUpperCase()), DataType.fromDDL(m.get(2))))
        .toArray(Measure[]::new);
  }

  /** Makes {@code penstock.part.NAME} and {@code penstock.told.NAME} known to Spark SQL. */
  public void register() {
    Functions.register("part." + name, input -> new Part(input, measures));
    Functions.register("bucket." + name, input -> new Bucket(partitions));
    Functions.register("told." + name, input -> new Told(measures));
  }

  /**
   * From parts to what is told, both as bytes.
   *
   * @param combine whether to fold before the shuffle; with ids to remember it is not done
   * @param live whether somebody asks for live rows
   */
  public Dataset<byte[]> apply(Dataset<Row> events, long latenessMs, long withinMs, boolean combine, boolean live) {
    Dataset<Row> parts = events;
    if (combine && withinMs == 0)
      parts = events.mapPartitions(new Combine(shape, measures), Encoders.BINARY()).toDF("part");
    return parts
        .groupBy(functions.expr("penstock.bucket.`" + name + "`(part)").as("bucket"))
        .as(Encoders.INT(), Encoders.BINARY())
        .transformWithState(
            new Spans(shape, layouts, latenessMs, withinMs, live), TimeMode.EventTime(), OutputMode.Append(), Encoders.BINARY());
  }
}
