package penstock.peers;

import java.util.Properties;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** What both jobs have in common: where they run, what they read, how they write. */
final class Flink {
    private static final String BOOTSTRAP = System.getProperty("peer.bootstrap");
    private static final boolean EXACTLY_ONCE = System.getProperty("peer.guarantee").equals("exactly_once");
    private static final String WORK = System.getProperty("peer.work");

    private Flink() {}

    static StreamExecutionEnvironment environment(String state, String checkpoints) {
        Configuration settings = new Configuration();
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("pipeline.generic-types", "false");
        settings.setString("state.backend.type", state);
        settings.setString("state.backend.rocksdb.localdir", WORK + "/rocksdb");
        settings.setString("state.backend.rocksdb.timer-service.factory", "HEAP");
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("execution.checkpointing.dir", "file://" + WORK + "/checkpoints");
        settings.setString("execution.checkpointing.interval", checkpoints);
        settings.setString("execution.checkpointing.mode", EXACTLY_ONCE ? "EXACTLY_ONCE" : "AT_LEAST_ONCE");
        settings.setString("taskmanager.memory.managed.size", "512mb");
        settings.setString("taskmanager.memory.network.min", "128mb");
        settings.setString("taskmanager.memory.network.max", "128mb");
        return StreamExecutionEnvironment.createLocalEnvironment(2, settings);
    }

    static KafkaSourceBuilder<Event> source() {
        return KafkaSource.<Event>builder()
                .setBootstrapServers(BOOTSTRAP)
                .setTopics(System.getProperty("peer.topic"))
                .setGroupId("flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setProperty("isolation.level", "read_committed")
                .setProperty("max.poll.records", "5000")
                .setProperty("max.partition.fetch.bytes", "4194304")
                .setDeserializer(new Events());
    }

    static <T> KafkaSink<T> sink(KafkaRecordSerializationSchema<T> rows, Properties producer) {
        producer.setProperty("transaction.timeout.ms", "300000");
        producer.setProperty("compression.type", "lz4");
        return KafkaSink.<T>builder()
                .setBootstrapServers(BOOTSTRAP)
                .setKafkaProducerConfig(producer)
                .setDeliveryGuarantee(EXACTLY_ONCE ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE)
                .setTransactionalIdPrefix("flink-" + System.nanoTime())
                .setRecordSerializer(rows)
                .build();
    }

    /** Bytes as events; those that are malformed or not good are dropped. */
    private static final class Events implements KafkaRecordDeserializationSchema<Event> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Event> out) {
            Marks.read();
            Event event = Event.parse(record.value());
            if (event != null && event.good()) out.collect(event);
        }

        @Override
        public TypeInformation<Event> getProducedType() {
            return TypeInformation.of(Event.class);
        }
    }
}
