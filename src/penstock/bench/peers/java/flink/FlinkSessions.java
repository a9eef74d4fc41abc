package penstock.peers;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Sessions of clicks, from a topic's beginning to its end, as often as there are rounds. */
public final class FlinkSessions {
    private static final Duration GAP = Duration.ofMinutes(30), OUT_OF_ORDER = Duration.ofSeconds(3);

    private FlinkSessions() {}

    public static void main(String[] arguments) throws Exception {
        Marks.endWithParent();
        Reference.load();
        for (int round = 0; round < Integer.getInteger("peer.rounds"); round++) {
            Marks.begin();
            run(System.getProperty("peer.output") + "-" + round);
            Marks.done(Marks.allRead());
        }
    }

    private static void run(String output) throws Exception {
        var environment = Flink.environment(System.getProperty("peer.state"), "5s");
        var times = WatermarkStrategy.<Event>forBoundedOutOfOrderness(OUT_OF_ORDER)
                .withTimestampAssigner((event, stamp) -> event.ts);
        Properties batches = new Properties();
        batches.setProperty("linger.ms", "5");
        batches.setProperty("batch.size", "131072");
        environment
                .fromSource(Flink.source().setBounded(OffsetsInitializer.latest()).build(), times, "clicks")
                .map(Click::of)
                .keyBy(click -> click.userId)
                .window(EventTimeSessionWindows.withGap(GAP))
                .aggregate(new Measures())
                .sinkTo(Flink.sink(new Rows(output), batches));
        environment.execute("sessions");
    }

    private static final class Measures implements AggregateFunction<Click, Session, Session> {
        @Override
        public Session createAccumulator() {
            return new Session();
        }

        @Override
        public Session add(Click click, Session session) {
            return session.add(click);
        }

        @Override
        public Session getResult(Session session) {
            return session;
        }

        @Override
        public Session merge(Session one, Session other) {
            return one.merge(other);
        }
    }

    private record Rows(String topic) implements KafkaRecordSerializationSchema<Session> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(Session session, KafkaSinkContext context, Long timestamp) {
            Marks.wrote();
            return new ProducerRecord<>(topic, session.userId.getBytes(StandardCharsets.UTF_8), session.json());
        }
    }
}
