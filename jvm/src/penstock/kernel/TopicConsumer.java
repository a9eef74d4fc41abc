package penstock.kernel;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of some partitions, kept from batch to batch by whatever executor runs the task.
 *
 * <ol>
 *   <li>Of each partition it gives every record from the first offset of the range to before the last, in order, once.
 *       Offsets between them may be missing: transactions leave marks, aborted ones gaps, compaction takes records.
 *   <li>It fails where the broker no longer has the offset that is due. The broker says so of each read that starts
 *       before its first record or behind its last, so no gap comes of records that were deleted.
 *   <li>What it was given beyond a range is kept for the next, and only for one that goes on right there.
 *   <li>After an error, or when a task ends early, it is not used again.
 * </ol>
 */
final class TopicConsumer {
  private static final long POLL_MS = 500;
  private static final long IDLE_NS = TimeUnit.SECONDS.toNanos(60);
  /** By query and task: those that no task uses. */
  private static final Map<String, TopicConsumer> IDLE = new ConcurrentHashMap<>();

  private final String name;
  private final KafkaConsumer<Void, byte[]> kafka;
  private final Map<TopicPartition, Place> places = new HashMap<>();
  /** Of this batch, those that have not reached the end of their range. */
  private final List<Place> unfinished = new ArrayList<>();
  /** Of these, those with records at hand, the one in use first. */
  private final Deque<Place> ready = new ArrayDeque<>();
  private long timeoutMs;
  private long idleSinceNs;

  private TopicConsumer(String name, Map<String, Object> settings) {
    this.name = name;
    // Keys are not read: the bytes of a record are all that counts.
    kafka = new KafkaConsumer<>(settings, (topic, key) -> null, new ByteArrayDeserializer());
  }

  /** The one that read the partitions in the batch before, if it is here; set to what is to be read now. */
  static TopicConsumer take(TopicStream.Share share) {
    String name = share.group() + "/" + share.task;
    TopicConsumer found = IDLE.remove(name);
    TopicConsumer consumer = found != null ? found : new TopicConsumer(name, share.consumer);
    try {
      consumer.begin(share);
    } catch (RuntimeException e) {
      consumer.close();
      throw e;
    }
    return consumer;
  }

  /** To be used by the next batch, if it did all of this one. */
  void giveBack() {
    if (!unfinished.isEmpty()) {
      close();
      return;
    }
    long nowNs = System.nanoTime();
    idleSinceNs = nowNs;
    TopicConsumer other = IDLE.put(name, this);
    if (other != null) other.close();
    IDLE.values().forEach(idle -> {
      if (nowNs - idle.idleSinceNs > IDLE_NS && IDLE.remove(idle.name, idle)) idle.close();
    });
  }

  /** Of a query that is over. */
  static void closeIdle(String group) {
    for (String name : IDLE.keySet()) {
      TopicConsumer idle = name.startsWith(group + "/") ? IDLE.remove(name) : null;
      if (idle != null) idle.close();
    }
  }

  private void close() {
    boolean interrupted = Thread.interrupted();
    try {
      kafka.close(CloseOptions.timeout(Duration.ZERO));
    } finally {
      if (interrupted) Thread.currentThread().interrupt();
    }
  }

  private void begin(TopicStream.Share share) {
    timeoutMs = share.timeoutMs;
    for (TopicStream.Range range : share.ranges) places.computeIfAbsent(range.partition, Place::new);
    if (kafka.assignment().size() < places.size()) {
      kafka.assign(places.keySet());
      kafka.pause(places.keySet());
    }
    for (TopicStream.Range range : share.ranges) {
      Place place = places.get(range.partition);
      if (place.next != range.from) {
        place.next = range.from;
        place.takes(Collections.emptyList());
        kafka.seek(place.partition, range.from);
      }
      place.until = range.until;
      unfinished.add(place);
      if (place.hasMore()) ready.add(place);
      kafka.resume(place.only);
    }
  }

  /** The next record of the batch, or null when that was all. */
  ConsumerRecord<Void, byte[]> next() {
    ConsumerRecord<Void, byte[]> record = given();
    while (record == null && !unfinished.isEmpty()) {
      poll();
      record = given();
    }
    return record;
  }

  /** The next record of a batch without end, or null when none came in time. */
  ConsumerRecord<Void, byte[]> next(long withinMs) {
    ConsumerRecord<Void, byte[]> record = given();
    long startedNs = System.nanoTime();
    for (long leftMs = withinMs; record == null && leftMs > 0; leftMs = withinMs - sinceMs(startedNs)) {
      takeIn(fetched(Math.min(leftMs, POLL_MS)));
      record = given();
    }
    return record;
  }

  /** The next of the records at hand. */
  private ConsumerRecord<Void, byte[]> given() {
    for (Place place = ready.peek(); place != null; place = ready.peek()) {
      ConsumerRecord<Void, byte[]> record = place.give();
      if (record != null) return record;
      ready.remove();
      if (place.next >= place.until) finish(place);
    }
    return null;
  }

  /** How far it came in a batch without end, which this ends. */
  TopicStream.Reached reached() {
    Map<TopicPartition, Long> next = new HashMap<>();
    for (Place place : unfinished) next.put(place.partition, place.next);
    unfinished.clear();
    ready.clear();
    return new TopicStream.Reached(next);
  }

  /** What comes of it from now on is for the next batch. What is under way is kept by the client. */
  private void finish(Place place) {
    place.next = place.until;
    unfinished.remove(place);
    kafka.pause(place.only);
  }

  /** Waits until there are records, or a partition turns out to have no more before the end of its range. */
  private void poll() {
    long startedNs = System.nanoTime();
    int before = unfinished.size();
    while (ready.isEmpty() && unfinished.size() == before) {
      ConsumerRecords<Void, byte[]> polled = fetched(POLL_MS);
      takeIn(polled);
      for (Place place : List.copyOf(unfinished))
        if (!place.hasMore() && kafka.position(place.partition) >= place.until) finish(place);
      long waitedMs = sinceMs(startedNs);
      if (polled.isEmpty() && unfinished.size() == before && waitedMs > timeoutMs)
        throw new IllegalStateException(unfinished + ": no answer from Kafka for " + waitedMs + " ms");
    }
  }

  /** Only when nothing is at hand: what was is over. */
  private void takeIn(ConsumerRecords<Void, byte[]> polled) {
    for (Place place : unfinished) {
      place.takes(polled.records(place.partition));
      if (place.hasMore()) ready.add(place);
    }
  }

  private static long sinceMs(long startedNs) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startedNs);
  }

  private ConsumerRecords<Void, byte[]> fetched(long withinMs) {
    try {
      return kafka.poll(Duration.ofMillis(withinMs));
    } catch (OffsetOutOfRangeException e) {
      throw new IllegalStateException("KAFKA_DATA_LOSS: Kafka no longer has " + e.offsetOutOfRangePartitions(), e);
    }
  }

  /** How far one partition is read. */
  private static final class Place {
    final TopicPartition partition;
    final Set<TopicPartition> only;
    long next = -1;
    long until;
    /** What came of it last. */
    private List<ConsumerRecord<Void, byte[]>> records = Collections.emptyList();
    private int given = 0;

    Place(TopicPartition partition) {
      this.partition = partition;
      this.only = Set.of(partition);
    }

    void takes(List<ConsumerRecord<Void, byte[]>> came) {
      records = came;
      given = 0;
    }

    boolean hasMore() {
      return given < records.size();
    }

    /** The next record at hand, or null where there is none or it is behind the range: then all before it were given. */
    ConsumerRecord<Void, byte[]> give() {
      if (!hasMore()) return null;
      ConsumerRecord<Void, byte[]> record = records.get(given);
      if (record.offset() >= until) {
        next = until;
        return null;
      }
      given++;
      next = record.offset() + 1;
      return record;
    }

    @Override public String toString() {
      return partition + " at " + next;
    }
  }
}
