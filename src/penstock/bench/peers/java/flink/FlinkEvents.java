package penstock.peers;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Every good click, enriched, until it is ended. */
public final class FlinkEvents {
    private FlinkEvents() {}

    /** The columns of the sink that `penstock.bench.realtime` reads. */
    @JsonNaming(SnakeCaseStrategy.class)
    public static class Enriched {
        private static final ObjectWriter WRITER = new JsonMapper().writerFor(Enriched.class);

        public String eventId, userId, eventType, segment, country, brand;
        public Double price;
        public Long createdMs;

        static Enriched of(Event event) {
            Reference.User user = Reference.user(event.userId);
            Enriched row = new Enriched();
            row.eventId = event.eventId;
            row.userId = event.userId;
            row.eventType = event.eventType;
            row.price = event.price;
            row.createdMs = event.createdMs;
            row.segment = user.segment();
            row.country = user.country();
            row.brand = Reference.product(event.productId).brand();
            return row;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Marks.endWithParent();
        Reference.load();
        var environment = Flink.environment("hashmap", "1s");
        Properties atOnce = new Properties();
        atOnce.setProperty("linger.ms", "0");
        environment
                .fromSource(
                        Flink.source().setProperty("fetch.max.wait.ms", "5").build(),
                        WatermarkStrategy.noWatermarks(),
                        "clicks")
                .map(Enriched::of)
                .sinkTo(Flink.sink(new Rows(System.getProperty("peer.output")), atOnce));
        environment.execute("events");
    }

    private record Rows(String topic) implements KafkaRecordSerializationSchema<Enriched> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(Enriched row, KafkaSinkContext context, Long timestamp) {
            try {
                byte[] key = row.eventId.getBytes(StandardCharsets.UTF_8);
                return new ProducerRecord<>(topic, key, Enriched.WRITER.writeValueAsBytes(row));
            } catch (JsonProcessingException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
