package penstock.kernel;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A Kafka topic as a stream of records. Which offsets a batch has is decided by Spark's own source, whose options
 * it takes and whose checkpoints it reads and writes; the records are read by {@link TopicReader}.
 *
 * <p>Twin: {@code kafka}, Spark's own, with the same columns and two more. It copies each record twice, and asks
 * the broker for the bounds of every partition in every batch.
 */
public final class Topic implements TableProvider {
  /** Into how many tasks the partitions are put. */
  public static final String TASKS = "tasks";

  static final StructType RECORD =
      StructType.fromDDL("value binary, topic string, partition int, offset bigint, timestamp timestamp");

  @Override public StructType inferSchema(CaseInsensitiveStringMap options) {
    return RECORD;
  }

  @Override public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return new Read();
  }

  private static final class Read implements SupportsRead {
    @Override public String name() { return "topic"; }
    @Override public StructType schema() { return RECORD; }
    @Override public Set<TableCapability> capabilities() { return Set.of(TableCapability.MICRO_BATCH_READ); }

    @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      SupportsRead spark = (SupportsRead) new KafkaSourceProvider().getTable(null, new Transform[0], options);
      return () -> new Scanned(spark.newScanBuilder(options).build(), options.getInt(TASKS, 1));
    }
  }

  private static final class Scanned implements Scan {
    private final Scan spark;
    private final int tasks;

    Scanned(Scan spark, int tasks) {
      this.spark = spark;
      this.tasks = tasks;
    }

    @Override public StructType readSchema() { return RECORD; }
    @Override public String description() { return spark.description(); }

    @Override public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new TopicStream(spark.toMicroBatchStream(checkpoint), tasks);
    }
  }
}
