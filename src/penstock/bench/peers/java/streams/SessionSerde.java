package penstock.peers;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serdes.WrapperSerde;

/** A session as bytes for the store: cheaper than JSON. */
final class SessionSerde extends WrapperSerde<Session> {
    SessionSerde() {
        super((topic, session) -> write(session), (topic, bytes) -> read(bytes));
    }

    private static byte[] write(Session session) {
        if (session == null) return null;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(192);
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeLong(session.startMs);
            out.writeLong(session.endMs);
            out.writeLong(session.events);
            out.writeLong(session.purchases);
            out.writeDouble(session.revenue);
            out.writeDouble(session.topPrice == null ? Double.NaN : session.topPrice);
            out.writeLong(session.firstPageAt);
            out.writeLong(session.lastPageAt);
            out.writeLong(session.lastCategoryAt);
            for (String text : new String[] {
                session.userId, session.firstPage, session.lastPage,
                session.segment, session.country, session.lastCategory
            }) {
                out.writeBoolean(text != null);
                if (text != null) out.writeUTF(text);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    private static Session read(byte[] bytes) {
        if (bytes == null) return null;
        Session session = new Session();
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            session.startMs = in.readLong();
            session.endMs = in.readLong();
            session.events = in.readLong();
            session.purchases = in.readLong();
            session.revenue = in.readDouble();
            double topPrice = in.readDouble();
            session.topPrice = Double.isNaN(topPrice) ? null : topPrice;
            session.firstPageAt = in.readLong();
            session.lastPageAt = in.readLong();
            session.lastCategoryAt = in.readLong();
            session.userId = text(in);
            session.firstPage = text(in);
            session.lastPage = text(in);
            session.segment = text(in);
            session.country = text(in);
            session.lastCategory = text(in);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return session;
    }

    private static String text(DataInputStream in) throws IOException {
        return in.readBoolean() ? in.readUTF() : null;
    }
}
