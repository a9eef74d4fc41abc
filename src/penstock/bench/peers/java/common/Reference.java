package penstock.peers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;

/** Users and products in memory, read once for the whole process. */
public final class Reference {
    public record User(String segment, String country) {}

    public record Product(String category, String brand) {}

    public static final User NOBODY = new User(null, null);
    public static final Product NOTHING = new Product(null, null);

    private static final Path DIRECTORY = Path.of(System.getProperty("peer.reference"));
    private static final Map<String, User> USERS = new HashMap<>();
    private static final Map<String, Product> PRODUCTS = new HashMap<>();

    static {
        rows("users.tsv").forEach(row -> USERS.put(row[0], new User(row[1], row[2])));
        rows("catalogue.tsv").forEach(row -> PRODUCTS.put(row[0], new Product(row[1], row[2])));
    }

    private Reference() {}

    /** Read it now, and not with the first event. */
    public static void load() {}

    public static User user(String id) {
        return USERS.getOrDefault(id, NOBODY);
    }

    public static Product product(String id) {
        return PRODUCTS.getOrDefault(id, NOTHING);
    }

    private static Stream<String[]> rows(String file) {
        try {
            return Files.readAllLines(DIRECTORY.resolve(file)).stream().map(line -> line.split("\t"));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
