package penstock.kernel;

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataType;

/**
 * Sessions or windows, put together for a pipeline: the way in ({@link Part}), the two stages ({@link Packing}
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
    Functions.register("told." + name, input -> new Told(measures));
  }

  /**
   * From parts to packets of them, one row of Spark's each.
   *
   * @param combine whether to fold what it can before
   */
  public Dataset<Row> pack(Dataset<Row> parts, boolean combine) {
    Combine combining = combine ? new Combine(shape, measures) : null;
    return parts.mapPartitions(new Packing(new Buckets(partitions), combining), Encoders.row(Packing.PACKET));
  }

  /**
   * From packets to what is told, as bytes.
   *
   * @param withinMs how long ids are remembered; 0 for not at all
   * @param live whether somebody asks for live rows
   */
  public Dataset<byte[]> apply(Dataset<Row> packets, long latenessMs, long withinMs, boolean live) {
    return packets
        .groupBy("bucket")
        .as(Encoders.INT(), Encoders.row(packets.schema()))
        .transformWithState(
            new Spans(shape, layouts, latenessMs, withinMs, live), TimeMode.EventTime(), OutputMode.Append(), Encoders.BINARY());
  }
}
