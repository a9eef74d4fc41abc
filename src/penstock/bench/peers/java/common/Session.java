package penstock.peers;

import com.fasterxml.jackson.annotation.JsonIgnore;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import com.fasterxml.jackson.databind.json.JsonMapper;

/**
 * The measures of clickstream.toml: what is added up, and the row that comes of it.
 *
 * <p>Clicks of one user come in the order of their offsets, so that of two with the same time the one that comes
 * later is the later one. Two sessions that merge have no time in common.
 */
@JsonNaming(SnakeCaseStrategy.class)
public class Session {
    private static final ObjectWriter WRITER = new JsonMapper().writerFor(Session.class);

    public String userId, firstPage, lastPage, segment, country, lastCategory;
    public long startMs = Long.MAX_VALUE, endMs = Long.MIN_VALUE;
    public long events, purchases;
    public double revenue;
    public Double topPrice;

    @JsonIgnore public long firstPageAt = Long.MAX_VALUE, lastPageAt = Long.MIN_VALUE;
    @JsonIgnore public long lastCategoryAt = Long.MIN_VALUE;

    public Session add(Click click) {
        userId = click.userId;
        segment = click.segment;
        country = click.country;
        startMs = Math.min(startMs, click.ts);
        endMs = Math.max(endMs, click.ts);
        events++;
        if (click.purchase) {
            purchases++;
            if (click.price != null) revenue += click.price;
        }
        if (click.price != null) raise(click.price);
        if (click.page != null) {
            firstPage(click.page, click.ts);
            lastPage(click.page, click.ts);
        }
        if (click.category != null) lastCategory(click.category, click.ts);
        return this;
    }

    public Session merge(Session other) {
        if (other.events == 0) return this;
        userId = other.userId;
        segment = other.segment;
        country = other.country;
        startMs = Math.min(startMs, other.startMs);
        endMs = Math.max(endMs, other.endMs);
        events += other.events;
        purchases += other.purchases;
        revenue += other.revenue;
        if (other.topPrice != null) raise(other.topPrice);
        if (other.firstPage != null) {
            firstPage(other.firstPage, other.firstPageAt);
            lastPage(other.lastPage, other.lastPageAt);
        }
        if (other.lastCategory != null) lastCategory(other.lastCategory, other.lastCategoryAt);
        return this;
    }

    public byte[] json() {
        try {
            return WRITER.writeValueAsBytes(this);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    private void raise(double price) {
        if (topPrice == null || price > topPrice) topPrice = price;
    }

    private void firstPage(String page, long at) {
        if (at < firstPageAt) {
            firstPage = page;
            firstPageAt = at;
        }
    }

    private void lastPage(String page, long at) {
        if (at >= lastPageAt) {
            lastPage = page;
            lastPageAt = at;
        }
    }

    private void lastCategory(String category, long at) {
        if (at >= lastCategoryAt) {
            lastCategory = category;
            lastCategoryAt = at;
        }
    }
}
