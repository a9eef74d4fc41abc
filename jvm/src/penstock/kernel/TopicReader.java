package penstock.kernel;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.unsafe.types.UTF8String;

/** The records that one task reads of a batch, as rows. All share one row, which holds a record's bytes as they came. */
final class TopicReader implements SupportsRealTimeRead<InternalRow> {
  private static final int VALUE = 0, TOPIC = 1, PARTITION = 2, OFFSET = 3, TIMESTAMP = 4;

  private final SpecificInternalRow row = new SpecificInternalRow(Topic.RECORD);
  private final TopicConsumer consumer;
  private String topic;
  private boolean closed = false;

  TopicReader(TopicStream.Share share) {
    consumer = TopicConsumer.take(share);
  }

  @Override public boolean next() {
    return show(consumer.next());
  }

  @Override public RecordStatus nextWithTimeout(Long nowMs, Long timeoutMs) {
    return RecordStatus.newStatusWithoutArrivalTime(show(consumer.next(timeoutMs)));
  }

  @Override public PartitionOffset getOffset() {
    return consumer.reached();
  }

  private boolean show(ConsumerRecord<Void, byte[]> record) {
    if (record == null) return false;
    row.update(VALUE, record.value());
    if (record.topic() != topic) row.update(TOPIC, UTF8String.fromString(topic = record.topic()));
    row.setInt(PARTITION, record.partition());
    row.setLong(OFFSET, record.offset());
    row.setLong(TIMESTAMP, record.timestamp() * 1000);
    return true;
  }

  @Override public InternalRow get() {
    return row;
  }

  /** Once: from then on the consumer may be another task's. */
  @Override public void close() {
    if (!closed) consumer.giveBack();
    closed = true;
  }
}
