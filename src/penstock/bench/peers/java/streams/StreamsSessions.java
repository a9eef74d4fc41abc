package penstock.peers;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.state.SessionStore;

/**
 * Sessions of clicks, from a topic's beginning to its end, as often as there are rounds.
 *
 * <p>Kafka Streams has no end of input, and a session is final only when a later record of its partition says so.
 * That record comes from a second topic, the clock, with one record in each partition. Of the records that are
 * there a task takes the one with the lowest time, so that the clock's comes last.
 *
 * <p>Sessions wait in suppress, which drops none. Emitting on close from the store instead finds only those that
 * the store still keeps when time moves on, and that is by default no longer than gap and grace.
 */
public final class StreamsSessions {
    private static final Duration GAP = Duration.ofMinutes(30), OUT_OF_ORDER = Duration.ofSeconds(3);
    private static final Duration CLOSED_WITHIN = Duration.ofMinutes(2);
    private static final List<String> TOPICS =
            List.of(System.getProperty("peer.topic"), System.getProperty("peer.clock"));

    private StreamsSessions() {}

    public static void main(String[] arguments) throws Exception {
        Marks.endWithParent();
        Reference.load();
        long events = size(TOPICS.get(0)), all = events + size(TOPICS.get(1));
        for (int round = 0; round < Integer.getInteger("peer.rounds"); round++) {
            Marks.begin();
            run(System.getProperty("peer.output") + "-" + round, all);
            Marks.done(events);
        }
    }

    private static void run(String output, long all) throws Exception {
        CountDownLatch read = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(topology(output, all, read), settings(output))) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
            });
            streams.start();
            read.await();
            if (!streams.close(CLOSED_WITHIN)) throw new IllegalStateException("Kafka Streams does not close");
        }
    }

    private static Topology topology(String output, long all, CountDownLatch read) {
        Serde<Event> events = Serdes.serdeFrom((topic, event) -> null, (topic, bytes) -> Event.parse(bytes));
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(TOPICS, Consumed.with(Serdes.String(), events)
                        .withTimestampExtractor((record, newest) ->
                                record.value() instanceof Event event && event.good() ? event.ts : Math.max(0, newest)))
                .peek((key, event) -> {
                    Marks.read();
                    if (Marks.allRead() == all) read.countDown();
                })
                .filter((key, event) -> event != null && event.good())
                .mapValues(Click::of)
                .groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, OUT_OF_ORDER))
                .aggregate(
                        Session::new,
                        (key, click, session) -> session.add(click),
                        (key, one, other) -> one.merge(other),
                        Materialized.<String, Session, SessionStore<Bytes, byte[]>>as("sessions")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(new SessionSerde()))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
                .toStream()
                .map((window, session) -> {
                    Marks.wrote();
                    return KeyValue.pair(window.key(), session.json());
                })
                .to(output, Produced.with(Serdes.String(), Serdes.ByteArray()));
        return builder.build();
    }

    private static Properties settings(String name) {
        boolean exactlyOnce = System.getProperty("peer.guarantee").equals("exactly_once");
        Properties settings = new Properties();
        settings.putAll(Map.of(
                StreamsConfig.APPLICATION_ID_CONFIG, name,
                StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("peer.bootstrap"),
                StreamsConfig.STATE_DIR_CONFIG, Path.of(System.getProperty("peer.work"), "state").toString(),
                StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
                exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE,
                StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 5_000,
                StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2,
                StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 256 << 20));
        settings.putAll(Map.of(
                StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest",
                StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 5_000,
                StreamsConfig.consumerPrefix(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG), 4 << 20,
                StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4",
                StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 128 << 10,
                StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 300_000,
                // Changes of state are stamped with event time, which in this work is not near the broker's.
                StreamsConfig.topicPrefix(TopicConfig.MESSAGE_TIMESTAMP_AFTER_MAX_MS_CONFIG), Long.MAX_VALUE,
                StreamsConfig.topicPrefix(TopicConfig.MESSAGE_TIMESTAMP_BEFORE_MAX_MS_CONFIG), Long.MAX_VALUE));
        return settings;
    }

    /** How many records a topic holds. */
    private static long size(String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", System.getProperty("peer.bootstrap")))) {
            List<TopicPartition> partitions =
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
                            .map(partition -> new TopicPartition(topic, partition.partition()))
                            .toList();
            return sum(admin, partitions, OffsetSpec.latest()) - sum(admin, partitions, OffsetSpec.earliest());
        }
    }

    private static long sum(Admin admin, List<TopicPartition> partitions, OffsetSpec where) throws Exception {
        Map<TopicPartition, OffsetSpec> asked =
                partitions.stream().collect(Collectors.toMap(partition -> partition, partition -> where));
        return admin.listOffsets(asked).all().get().values().stream()
                .mapToLong(ListOffsetsResultInfo::offset)
                .sum();
    }
}
