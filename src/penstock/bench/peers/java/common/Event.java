package penstock.peers;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.util.Set;

/** A click as it is read; the fields that nobody needs are skipped. */
@JsonIgnoreProperties(ignoreUnknown = true)
@JsonNaming(SnakeCaseStrategy.class)
public class Event {
    private static final Set<String> KNOWN_TYPES = Set.of("view", "click", "search", "cart", "purchase");
    private static final ObjectReader READER =
            JsonMapper.builder().disable(MapperFeature.ALLOW_COERCION_OF_SCALARS).build().readerFor(Event.class);

    public String eventId, userId, eventType, productId, page;
    public Double price;
    public Long ts, createdMs;

    /** The event, or null where the bytes are not one. */
    public static Event parse(byte[] json) {
        if (json == null) return null;
        try {
            return READER.readValue(json);
        } catch (IOException malformed) {
            return null;
        }
    }

    /** The rules of [cleanse] in clickstream.toml. */
    public boolean good() {
        return eventId != null && userId != null && ts != null
                && eventType != null && KNOWN_TYPES.contains(eventType)
                && (price == null || price >= 0);
    }
}
