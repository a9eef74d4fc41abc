package penstock.kernel;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaSourcePartitionOffset;

/**
 * Spark's own stream of a topic, but that several partitions are read by one task, the same one in each batch. In
 * Real-time Mode a batch has no end offsets: it is over when its time is, and each task says how far it came.
 */
final class TopicStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode, ReportsSourceMetrics {
  private final MicroBatchStream spark;
  private final int tasks;
  private volatile String group;

  TopicStream(MicroBatchStream spark, int tasks) {
    this.spark = spark;
    this.tasks = tasks;
  }

  @Override public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return shared(spark.planInputPartitions(start, end));
  }

  @Override public InputPartition[] planInputPartitions(Offset start) {
    return shared(realTime().planInputPartitions(start));
  }

  private InputPartition[] shared(InputPartition[] partitions) {
    List<Share> shares = new ArrayList<>();
    for (int i = 0; i < tasks; i++) shares.add(new Share(i));
    for (InputPartition planned : partitions) {
      KafkaBatchInputPartition part = (KafkaBatchInputPartition) planned;
      Share share = shares.get(Math.floorMod(part.offsetRange().partition(), tasks));
      share.ranges.add(new Range(part));
      share.consumer = part.executorKafkaParams();
      share.timeoutMs = part.pollTimeoutMs();
      group = share.group();
    }
    shares.removeIf(share -> share.ranges.isEmpty());
    return shares.toArray(new InputPartition[0]);
  }

  @Override public Offset mergeOffsets(PartitionOffset[] reached) {
    List<PartitionOffset> each = new ArrayList<>();
    for (PartitionOffset task : reached)
      ((Reached) task).next.forEach((partition, next) -> each.add(new KafkaSourcePartitionOffset(partition, next)));
    return realTime().mergeOffsets(each.toArray(new PartitionOffset[0]));
  }

  @Override public PartitionReaderFactory createReaderFactory() {
    return new Factory();
  }

  @Override public void stop() {
    spark.stop();
    if (group != null) TopicConsumer.closeIdle(group);
  }

  // All else is Spark's.
  @Override public Offset initialOffset() { return spark.initialOffset(); }
  @Override public Offset latestOffset() { return spark.latestOffset(); }
  @Override public Offset latestOffset(Offset start, ReadLimit limit) { return admission().latestOffset(start, limit); }
  @Override public Offset reportLatestOffset() { return admission().reportLatestOffset(); }
  @Override public ReadLimit getDefaultReadLimit() { return admission().getDefaultReadLimit(); }
  @Override public void prepareForTriggerAvailableNow() { admission().prepareForTriggerAvailableNow(); }
  @Override public void prepareForRealTimeMode() { realTime().prepareForRealTimeMode(); }
  @Override public Offset deserializeOffset(String json) { return spark.deserializeOffset(json); }
  @Override public void commit(Offset end) { spark.commit(end); }
  @Override public String toString() { return spark.toString(); }

  @Override public Map<String, String> metrics(Optional<Offset> consumed) {
    return ((ReportsSourceMetrics) spark).metrics(consumed);
  }

  private SupportsTriggerAvailableNow admission() {
    return (SupportsTriggerAvailableNow) spark;
  }

  private SupportsRealTimeMode realTime() {
    return (SupportsRealTimeMode) spark;
  }

  /** What one task reads of a batch. */
  static final class Share implements InputPartition {
    final int task;
    final List<Range> ranges = new ArrayList<>();
    Map<String, Object> consumer;
    long timeoutMs;

    Share(int task) {
      this.task = task;
    }

    /** One for each life of a query. */
    String group() {
      return (String) consumer.get("group.id");
    }
  }

  /** By partition, the offset from which on records have not been given. */
  static final class Reached implements PartitionOffset {
    final Map<TopicPartition, Long> next;

    Reached(Map<TopicPartition, Long> next) {
      this.next = next;
    }
  }

  /** Offsets of one partition: those of a batch are from the first to before the second, in Real-time Mode without end. */
  static final class Range implements Serializable {
    final TopicPartition partition;
    final long from;
    final long until;

    Range(KafkaBatchInputPartition part) {
      partition = part.offsetRange().topicPartition();
      from = part.offsetRange().fromOffset();
      until = part.offsetRange().untilOffset();
    }
  }

  private static final class Factory implements PartitionReaderFactory {
    @Override public PartitionReader<InternalRow> createReader(InputPartition share) {
      return new TopicReader((Share) share);
    }
  }
}
